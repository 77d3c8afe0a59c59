"""The header version that an API version uses: the rule, its exceptions, and a schema's `headerVersions`.

The rule (Kafka's ApiMessageTypeGenerator): a flexible body has request header 2 and response header 1, any
other has request header 1 and response header 0. The rule needs only the version number, known or not:
ApiVersions v99 has request header 2.

The exceptions:

- ApiVersions: its response always has header 0, because a client that does not yet know what the broker
  supports must be able to read it (KIP-511).
- ControlledShutdown v0 has request header 0, the one without a client ID. Kafka 4.0 removed it.
- A schema's `headerVersions` take precedence. KIP-1313 introduces that property for its request header 3; the
  overlay states it for what it changes. So OffsetDelete goes from request header 1 (v0) to 3 (v1) without
  using 2, while its response goes from 0 to 1.
- A version beyond the overlay has the header of the latest released version, until a release says otherwise.
- SaslHandshake has no flexible version, and KIP-1313 adds none: its header stays 1.

`parse_header_versions` refuses what the text of KIP-1313 forbids. `remarks` names what only Kafka's own
generator refuses: such schemas can be used, but Kafka's build would not have accepted them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from decoders.protocol import API_VERSIONS
from decoders.schema.model import Fault, HeaderVersions, Message, VersionRange

CONTROLLED_SHUTDOWN: Final = 7


class Layout(enum.StrEnum):
    """Where a request header has the client instance ID."""

    PLAIN = "plain"
    """Between the client ID and the tagged fields, as in KIP-1313."""
    TAGGED = "tagged"
    """In a tagged field, as in a later revision of its implementation."""


def request_header_version(request: Message, version: int) -> int:
    """Return the request header version, 0 to 3, of any version number of an API."""
    stated = _stated(request, version)
    if stated is not None:
        return stated
    if request.api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if request.is_flexible(version) else 1


def response_header_version(response: Message, version: int) -> int:
    """Return the response header version, 0 or 1, of any version number of an API."""
    if response.api_key == API_VERSIONS:
        return 0
    stated = _stated(response, version)
    if stated is not None:
        return stated
    return 1 if response.is_flexible(version) else 0


def parse_header_versions(stated: Mapping[str, Any], valid: VersionRange) -> HeaderVersions:
    """Read a schema's `headerVersions`: a map from ranges of its versions to header versions.

    The ranges must not overlap or leave gaps, the last must be open, and together they must cover the valid
    versions (KIP-1313, "Changes to the Kafka protocol message schemas"). Raises ValueError.
    """
    read = [(VersionRange.parse(key), _header_version(key, header)) for key, header in stated.items()]
    parsed = tuple(sorted(read, key=lambda entry: entry[0].lowest))
    if not all(versions for versions, _ in parsed):
        raise ValueError("'none' is no range of versions")
    for (before, _), (after, _) in pairwise(parsed):
        if after.lowest <= before.highest:
            raise ValueError(f"{before} and {after} overlap")
        if after.lowest > before.highest + 1:
            raise ValueError(f"no range holds the versions between {before} and {after}")
    if not parsed or not parsed[-1][0].is_open:
        raise ValueError("the last range is not open, as 3+ is")
    if valid and parsed[0][0].lowest > valid.lowest:
        raise ValueError(f"version {valid.lowest} is valid, but in no range")
    return parsed


def _header_version(key: str, stated: Any) -> int:
    text = str(stated)
    if isinstance(stated, bool) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"{stated!r}, for {key}, is not a header version")
    return int(text)


def _stated(message: Message, version: int) -> int | None:
    for versions, header_version in message.header_versions:
        if version in versions:
            return header_version
    return None


def remarks(messages: Mapping[str, Message]) -> list[Fault]:
    """Check `headerVersions` by the rules of Kafka's generator, which are stricter than the KIP's.

    `messages` are those of a whole table by name. A message without `headerVersions` is skipped.
    """
    return [
        Fault(f"{message.name}.json", 0, f"headerVersions: {reason}")
        for message in messages.values()
        if message.header_versions
        for reason in _reasons(message, messages[_header_of(message)])
    ]


def _header_of(message: Message) -> str:
    return "RequestHeader" if message.kind == "request" else "ResponseHeader"


def _reasons(message: Message, header: Message) -> Iterator[str]:
    first = message.header_versions[0][0]
    if first.lowest > 0:
        yield f"the first range, {first}, does not start at version 0"
    for (_, before), (versions, after) in pairwise(message.header_versions):
        if after < before:
            yield f"from versions {versions} on, the header goes back from {before} to {after}"
    for versions, used in message.header_versions:
        yield from _reasons_of_range(message, versions, used, header)


def _reasons_of_range(message: Message, versions: VersionRange, used: int, header: Message) -> Iterator[str]:
    if message.kind == "response" and message.api_key == API_VERSIONS:
        if used != 0:
            yield f"versions {versions} use header {used}: this response has header 0 at every version"
    # An invalid header version may serve message versions that are invalid, too.
    elif used not in header.versions and _overlap(versions, message.versions):
        yield f"versions {versions} use header {used}, and {header.name} has only {header.versions}"
    elif _overlap(versions, message.flexible_versions) and not header.is_flexible(used):
        yield f"versions {versions} hold a flexible one, and header {used} is not"


def _overlap(one: VersionRange, other: VersionRange) -> bool:
    return max(one.lowest, other.lowest) <= min(one.highest, other.highest)
