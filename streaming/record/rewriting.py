"""Rewrites broker addresses in responses, so that clients connect to relays. Pure.

Clients find brokers by Metadata, DescribeCluster and FindCoordinator; KIP-951 added `nodeEndpoints` to
responses that name a new leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decoders.codec.failure import EncodeError
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas

Address = tuple[str, int]
Replace = Callable[[Address], Address]

_RESPONSE_ITSELF = ""
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "Metadata": ("brokers",),
    "DescribeCluster": ("brokers",),
    # Before version 4 the response itself names one coordinator.
    "FindCoordinator": (_RESPONSE_ITSELF, "coordinators"),
    "Produce": ("nodeEndpoints",),
    "Fetch": ("nodeEndpoints",),
    "ShareFetch": ("nodeEndpoints",),
    "ShareAcknowledge": ("nodeEndpoints",),
}
"""The fields of each API's response that hold broker addresses."""


class UnreadableResponseError(ValueError):
    """A response that cannot be decoded, so that its addresses cannot be replaced."""


def holds_addresses(schemas: Schemas, api_key: int) -> bool:
    """Whether responses of an API may hold broker addresses."""
    api = schemas.api(api_key)
    return api is not None and api.name in ADDRESSES


def rewrite(schemas: Schemas, frame: bytes, api_key: int, api_version: int, replace: Replace) -> bytes:
    """Return a response with every broker address replaced; one without addresses is unchanged.

    Raises UnreadableResponseError if the response cannot be decoded completely, or not be encoded again.
    """
    read = read_response(schemas, frame, api_key, api_version)
    if read.body is None or read.body_version is None or read.correlation_id is None or not read.api:
        raise UnreadableResponseError(f"the response to API {api_key} v{api_version}: {read.failure}")
    brokers = list(_brokers(read.body, ADDRESSES[read.api.name]))
    for broker in brokers:
        broker["host"], broker["port"] = replace((broker["host"], broker["port"]))
    if not brokers:
        return frame
    try:
        return write_response(schemas, api_key, read.body_version, read.correlation_id, read.body)
    except EncodeError as error:
        raise UnreadableResponseError(f"the response to {read.api.name} v{api_version}: {error}") from error


def _brokers(body: dict[str, Any], fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the structs that name a broker; an unknown one has no host."""
    for field in fields:
        structs = [body] if field == _RESPONSE_ITSELF else body.get(field) or ()
        yield from (struct for struct in structs if struct.get("host"))
