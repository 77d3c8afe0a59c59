"""KIP-1313 as a named overlay on a table that does not know it.

No release speaks request header 3 yet. The overlay adds what the KIP's section "Kafka Protocol
Changes" says to the table of a release that lacks `headerVersions`; a table that has them already
knows better and is left alone.

- Every API with valid versions, SaslHandshake excepted, gets one more version. It uses request
  header 3 and has the body of the version before it.
- Request header 3 adds ClientInstanceId, a uuid, to the fields of header 2.
- OffsetDelete v1 is also the first flexible version of its API.
- GetTelemetrySubscriptions v1, in request and answer, and PushTelemetry v1, in the request, have no
  ClientInstanceId in the body: the header carries it.
"""

from __future__ import annotations

from typing import Any, Final

from decoders.schema.header_versions import SASL_HANDSHAKE
from decoders.schema.jar import Table
from decoders.schema.model import VersionRange

NAME: Final = "KIP-1313"
HEADER_VERSION: Final = 3

_FIRST_FLEXIBLE: Final = frozenset({"OffsetDeleteRequest", "OffsetDeleteResponse"})
_WITHOUT_INSTANCE_ID: Final = frozenset(
    {"GetTelemetrySubscriptionsRequest", "GetTelemetrySubscriptionsResponse", "PushTelemetryRequest"}
)
_INSTANCE_ID: Final = {"name": "ClientInstanceId", "type": "uuid", "versions": "3+"}


def is_needed(table: Table) -> bool:
    """Whether the table is of a release that knows nothing of header versions."""
    return not any("headerVersions" in message for message in table["messages"])


def apply(table: Table) -> Table:
    """Give back the table with the KIP's versions added; the given one stays as it is."""
    return {**table, "messages": [_amended(message) for message in table["messages"]]}


def _amended(message: dict[str, Any]) -> dict[str, Any]:
    if message["name"] == "RequestHeader":
        return _with_header_3(message)
    if message["type"] not in ("request", "response") or message["apiKey"] == SASL_HANDSHAKE:
        return message
    versions = VersionRange.parse(message["validVersions"])
    return _with_version(message, versions, versions.highest + 1) if versions else message


def _with_header_3(header: dict[str, Any]) -> dict[str, Any]:
    versions = VersionRange.parse(header["validVersions"])
    return {
        **header,
        "validVersions": str(VersionRange(versions.lowest, HEADER_VERSION)),
        "fields": [*header["fields"], _INSTANCE_ID],
    }


def _with_version(message: dict[str, Any], versions: VersionRange, added: int) -> dict[str, Any]:
    amended = {**message, "validVersions": str(VersionRange(versions.lowest, added))}
    if message["type"] == "request":
        # Of this one version only: what a later, unknown version uses is for its release to say.
        amended["headerVersions"] = {str(added): str(HEADER_VERSION)}
    if message["name"] in _FIRST_FLEXIBLE:
        amended["flexibleVersions"] = f"{added}+"
    if message["name"] in _WITHOUT_INSTANCE_ID:
        amended["fields"] = [_until(field, versions.highest) for field in message["fields"]]
    return amended


def _until(field: dict[str, Any], highest: int) -> dict[str, Any]:
    if field["name"] != "ClientInstanceId":
        return field
    return {**field, "versions": str(VersionRange(VersionRange.parse(field["versions"]).lowest, highest))}
