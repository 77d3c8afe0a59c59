"""Bodies for every API version: what a client sends, and what a broker returns.

Arrays of structures hold one element, so that every field of the schema is on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decoders.schema.model import Struct
from decoders.schema.registry import Api
from expectations.conversation.texts import identifier_text
from tests.mutations.script import SCHEMAS, SERVER_PORT

INSTANCE_ID, OTHER_ID = bytes.fromhex("7b6e" + "a5" * 14), bytes.fromhex("91c0" + "5a" * 14)
ONE_ID = bytes(15) + b"\1"
MEMBER_ID, OTHER_MEMBER_ID = identifier_text(INSTANCE_ID), identifier_text(OTHER_ID)
SOFTWARE = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1.0"}
CLUSTER_ID, NODE_ID = "cluster-of-tests", 1
GROUP = "orders"
HEARTBEAT_APIS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
MEMBER_REQUESTS = ("OffsetCommit", "TxnOffsetCommit", "ShareFetch", "ShareAcknowledge")
"""The other requests that name a member."""
TELEMETRY_APIS = ("GetTelemetrySubscriptions", "PushTelemetry")
JOIN, LEAVE = 0, -1
ZERO_TEXT = "A" * 22
"""The member ID, or client instance ID, of zero bytes."""
UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42
"""Error codes."""

_BROKER = {"host": "10.0.0.200", "port": SERVER_PORT}
_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "Produce": {"acks": 1},
    **{api: {"groupId": GROUP, "memberId": MEMBER_ID, "memberEpoch": 1} for api in HEARTBEAT_APIS},
    **{api: {"groupId": GROUP, "memberId": MEMBER_ID} for api in MEMBER_REQUESTS},
}
_RESPONSES: Mapping[str, Mapping[str, Any]] = {
    **{
        api: {"memberId": MEMBER_ID, "memberEpoch": 1, "heartbeatIntervalMs": 5_000} for api in HEARTBEAT_APIS
    },
    "GetTelemetrySubscriptions": {"clientInstanceId": MEMBER_ID},
    "Metadata": {"clusterId": CLUSTER_ID, "brokers": [_BROKER | {"nodeId": NODE_ID}]},
    "DescribeCluster": {"clusterId": CLUSTER_ID, "brokers": [_BROKER | {"brokerId": NODE_ID}]},
}


def request_body(api: Api, version: int, **given: Any) -> dict[str, Any]:
    """The body of a request."""
    if api.name == "ApiVersions":
        return (SOFTWARE if version >= 3 else {}) | given
    own = _existing(api.request.struct, version, _REQUESTS.get(api.name, {}))
    return filled(api.request.struct, version) | own | given


def response_body(api: Api, version: int, error_code: int = 0, **given: Any) -> dict[str, Any]:
    """The body of a response, with the error code in every error field."""
    if api.name == "ApiVersions":
        return {"errorCode": error_code, **given}
    own = _existing(api.response.struct, version, _RESPONSES.get(api.name, {}))
    return filled(api.response.struct, version, error_code) | own | given


def filled(struct: Struct, version: int, error_code: int = 0) -> dict[str, Any]:
    """Return values in which each array of structures has one element, and each error field the error."""
    values: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        if field.is_array and field.struct is not None:
            values[field.name] = [filled(field.struct, version, error_code)]
        elif field.type == "int16" and field.name.endswith("rrorCode"):
            values[field.name] = error_code
        elif field.type == "records" and version not in field.nullable_versions:
            values[field.name] = ""
    return values


def ranges(*listed: tuple[int, int, int]) -> list[dict[str, int]]:
    """The entries of an advertisement: API key, lowest and highest version."""
    return [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, low, high in listed]


def known_ranges(names: set[str]) -> list[dict[str, int]]:
    """Advertise all versions of some APIs, ApiVersions among them."""
    apis = [api for api in SCHEMAS.apis if api.name in names | {"ApiVersions"}]
    return ranges(*((api.key, api.versions.lowest, api.versions.highest) for api in apis))


def _existing(struct: Struct, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
    fields = {field.name for field in struct.fields if version in field.versions}
    return {name: value for name, value in values.items() if name in fields}
