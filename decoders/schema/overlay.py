"""KIP-1313 as an overlay: the versions that it adds to a release that does not have it.

No release has request header 3 yet. The overlay adds the changes of the KIP's section "Kafka Protocol
Changes" to the table of a release that lacks `headerVersions`; a table that has them is not changed.

- Every API with valid versions, SaslHandshake excepted, gets one more version. It uses request
  header 3 and has the body of the version before it. Request and response state `headerVersions`.
- Request header 3 adds ClientInstanceId, a UUID, to the fields of header 2.
- OffsetDelete v1 is also the first flexible version of its API.
- GetTelemetrySubscriptions v1, in request and response, and PushTelemetry v1, in the request, have no
  ClientInstanceId in the body: the header has it.

The KIP's later revision, whose text is not published with it, has the ID in a tagged field of header 3. The
overlay assumes tag 0, the first free tag of the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from decoders.protocol import SASL_HANDSHAKE
from decoders.schema.header_versions import (
    Layout,
    request_header_version,
    response_header_version,
)
from decoders.schema.model import HIGHEST_VERSION, Message, VersionRange
from decoders.schema.table import Table

NAME: Final = "KIP-1313"
HEADER_VERSION: Final = 3

_FIRST_FLEXIBLE: Final = frozenset({"OffsetDeleteRequest", "OffsetDeleteResponse"})
_WITHOUT_INSTANCE_ID: Final = frozenset(
    {"GetTelemetrySubscriptionsRequest", "GetTelemetrySubscriptionsResponse", "PushTelemetryRequest"}
)
_INSTANCE_ID: Final = {"name": "ClientInstanceId", "type": "uuid", "versions": "3+"}
_ADDED_TO_HEADER: Final = {
    Layout.PLAIN: _INSTANCE_ID,
    Layout.TAGGED: {**_INSTANCE_ID, "taggedVersions": "3+", "tag": 0},
}


def is_needed(table: Table) -> bool:
    """Return whether the table is of a release without `headerVersions`."""
    return not any("headerVersions" in message for message in table["messages"])


def apply(table: Table, released: Mapping[str, Message]) -> Table:
    """Return the table with the KIP's versions added; the given one is not changed.

    `released` are the messages of the table by name.
    """
    return {**table, "messages": [_amended(message, released) for message in table["messages"]]}


def request_header(header: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """Add version 3 to the request header of a release, in one of its layouts."""
    versions = VersionRange.parse(header["validVersions"])
    return {
        **header,
        "validVersions": str(VersionRange(versions.lowest, HEADER_VERSION)),
        "fields": [*header.get("fields", []), _ADDED_TO_HEADER[layout]],
    }


def _amended(message: dict[str, Any], released: Mapping[str, Message]) -> dict[str, Any]:
    if message["name"] == "RequestHeader":
        return request_header(message, Layout.PLAIN)
    if message["type"] not in ("request", "response") or message["apiKey"] == SASL_HANDSHAKE:
        return message
    versions = VersionRange.parse(message["validVersions"])
    return _with_version(message, released[message["name"]]) if versions else message


def _with_version(message: dict[str, Any], released: Message) -> dict[str, Any]:
    versions, added = released.versions, released.versions.highest + 1
    amended = {
        **message,
        "validVersions": str(VersionRange(versions.lowest, added)),
        "headerVersions": _header_versions(released, added),
    }
    if message["name"] in _FIRST_FLEXIBLE:
        amended["flexibleVersions"] = f"{added}+"
    if message["name"] in _WITHOUT_INSTANCE_ID:
        amended["fields"] = [_until(field, versions.highest) for field in message.get("fields", [])]
    return amended


def _header_versions(released: Message, added: int) -> dict[str, str]:
    """Write the map that the KIP requires of every schema, from version 0 on."""
    if released.kind == "request":
        used = [request_header_version(released, version) for version in range(added)] + [HEADER_VERSION]
    else:
        used = [response_header_version(released, version) for version in range(added)]
        used.append(1 if released.name in _FIRST_FLEXIBLE else response_header_version(released, added))
    return _in_ranges(used)


def _in_ranges(used: list[int]) -> dict[str, str]:
    """Group consecutive versions from 0 on that use the same header; the last range is open."""
    stated, lowest = {}, 0
    for header_version, group in groupby(used):
        highest = lowest + len(list(group)) - 1
        end = HIGHEST_VERSION if highest == len(used) - 1 else highest
        stated[str(VersionRange(lowest, end))] = str(header_version)
        lowest = highest + 1
    return stated


def _until(field: dict[str, Any], highest: int) -> dict[str, Any]:
    if field["name"] != "ClientInstanceId":
        return field
    return {**field, "versions": str(VersionRange(VersionRange.parse(field["versions"]).lowest, highest))}
