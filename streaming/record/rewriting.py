"""Rewriting the broker addresses in answers, so that clients come back to where they asked. Pure.

KIP-951 put `nodeEndpoints` into answers that tell of a new leader; the other three APIs are how clients
find brokers at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decoders.codec.failure import EncodeError
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas

Address = tuple[str, int]
Replace = Callable[[Address], Address]

_OF_THE_ANSWER = ""
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "Metadata": ("brokers",),
    "DescribeCluster": ("brokers",),
    # Before version 4 one coordinator stood in the answer itself.
    "FindCoordinator": (_OF_THE_ANSWER, "coordinators"),
    "Produce": ("nodeEndpoints",),
    "Fetch": ("nodeEndpoints",),
    "ShareFetch": ("nodeEndpoints",),
    "ShareAcknowledge": ("nodeEndpoints",),
}
"""The fields of each API's answer in which broker addresses stand."""


class UnreadableAnswerError(ValueError):
    """An answer whose addresses cannot be told from its other bytes."""


def holds_addresses(schemas: Schemas, api_key: int) -> bool:
    """Whether answers of an API may hold broker addresses."""
    api = schemas.api(api_key)
    return api is not None and api.name in ADDRESSES


def rewrite(schemas: Schemas, frame: bytes, api_key: int, api_version: int, replace: Replace) -> bytes:
    """Write an answer anew with every broker address replaced; without any it stays as it is.

    Raises UnreadableAnswerError when the answer cannot be read whole or not be written again.
    """
    answer = read_response(schemas, frame, api_key, api_version)
    if answer.body is None or answer.body_version is None or answer.correlation_id is None or not answer.api:
        raise UnreadableAnswerError(f"the answer to API {api_key} v{api_version}: {answer.failure}")
    places = list(_places(answer.body, ADDRESSES[answer.api.name]))
    for place in places:
        place["host"], place["port"] = replace((place["host"], place["port"]))
    if not places:
        return frame
    try:
        return write_response(schemas, api_key, answer.body_version, answer.correlation_id, answer.body)
    except EncodeError as error:
        raise UnreadableAnswerError(f"the answer to {answer.api.name} v{api_version}: {error}") from error


def _places(body: dict[str, Any], fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Find the structs that name a broker; an unknown one has no host."""
    for field in fields:
        structs = [body] if field == _OF_THE_ANSWER else body.get(field) or ()
        yield from (struct for struct in structs if struct.get("host"))
