"""Which header version an API version uses: the rule and every exception to it.

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
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from decoders.protocol import API_VERSIONS
from decoders.schema.model import HeaderVersions, Message, VersionRange

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
