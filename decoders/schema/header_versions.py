"""Which header version an API version uses: the rule and every exception to it.

The rule (Kafka's ApiMessageTypeGenerator): a flexible body stands behind request header 2 and
response header 1, any other behind request header 1 and response header 0. It looks at the version
number as it stands, known or not: ApiVersions v99 has request header 2.

The exceptions:

- ApiVersions: its answer always has response header 0, because a client that has not yet learned
  what the broker supports must be able to read it (KIP-511).
- ControlledShutdown v0 has request header 0, the one without a client ID. Kafka 4.0 removed it.
- A schema that states `headerVersions` is believed. KIP-1313 introduces that property for
  its request header 3; the overlay states it for the versions that it adds. So OffsetDelete goes
  from request header 1 (v0) to 3 (v1) and never uses 2, while its answer goes from 0 to 1.
- SaslHandshake has no flexible version and gets none from KIP-1313: its header stays 1.
"""

from __future__ import annotations

from typing import Final

from decoders.schema.model import Message

CONTROLLED_SHUTDOWN: Final = 7
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18


def request_header_version(request: Message, version: int) -> int:
    """Tell the request header version, 0 to 3, of any version number of an API."""
    stated = _stated(request, version)
    if stated is not None:
        return stated
    if request.api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if request.is_flexible(version) else 1


def response_header_version(response: Message, version: int) -> int:
    """Tell the response header version, 0 or 1, of any version number of an API."""
    if response.api_key == API_VERSIONS:
        return 0
    stated = _stated(response, version)
    if stated is not None:
        return stated
    return 1 if response.is_flexible(version) else 0


def _stated(message: Message, version: int) -> int | None:
    for versions, header_version in message.header_versions:
        if version in versions:
            return header_version
    return None
