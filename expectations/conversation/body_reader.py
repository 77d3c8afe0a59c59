"""Reads the parts of a decoded body that rules read, as one of the structs of `bodies.py`.

`request_body` and `response_body` choose the reader by API. Two details take more than copying fields:
which APIs an advertisement offers on request header v3 (`header_offer`), and whether a heartbeat could be
refused for anything but its member ID (`is_well_formed`). `columnar/reading.py` reads the most frequent of
these bodies for whole batches.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Defect
from decoders.codec.request import Request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Endpoint, Record
from decoders.protocol import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_CLUSTER,
    GET_TELEMETRY_SUBSCRIPTIONS,
    HEARTBEAT_APIS,
    JOIN_GROUP,
    JOINING,
    LEAVE_GROUP,
    LEAVING,
    METADATA,
    OFFSET_COMMIT,
    PUSH_TELEMETRY,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STATIC_LEAVING,
    TXN_OFFSET_COMMIT,
    UNSUPPORTED_VERSION,
)
from decoders.schema.registry import Api, Schemas
from expectations.conversation.bodies import (
    LONGEST_OWN_MEMBER_ID,
    NAMED_LIMIT,
    NO_LAYOUT,
    NO_NODE,
    OTHER_HEADER,
    Advertisement,
    Body,
    ClassicGroup,
    ClusterDescription,
    Features,
    HeaderOffer,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    SoftwareClaim,
    TelemetryIdentity,
)
from expectations.conversation.texts import bounded, bounded_or_none, is_blank

_REFUSAL: Final = b"\x00\x23"
"""Error 35."""
FEATURES_LIMIT: Final = 64
"""Features of an advertisement that are kept. Kafka has ten."""
NO_TIMEOUT: Final = -1
_HEADER_VERSION: Final = 3
_BROKERS: Final = 1
"""The endpoint type of a DescribeCluster response that lists brokers, not controllers."""


def request_body(request: Request) -> Body | None:
    """Read a request's body; None if rules read nothing of it."""
    if not request.known:
        return None
    if request.api_key in HEARTBEAT_APIS and _is_null_member_id(request.failure):
        return Heartbeat(member_id=None)
    if request.body is None or request.api_key is None:
        return None
    read = _REQUEST_BODIES.get(request.api_key)
    return _read_by(read, request.body) if read else None


def _is_null_member_id(failure: DecodeFailure | None) -> bool:
    return failure is not None and failure.path == "memberId" and failure.reason is Defect.NULL_NOT_ALLOWED


def response_body(schemas: Schemas, record: Record, response: Response) -> Body | None:
    """Read the body of a record's response; None if rules read nothing of it."""
    body = _read_by(_cluster_description, record, response) or _read_by(_response_body, schemas, response)
    if body is None and record.paired_api_key == API_VERSIONS and not record.is_cut:
        body = _misplaced_refusal(schemas, record.frame)
    return body


def _read_by(read: Callable[..., Body | None], *given: Any) -> Body | None:
    """Read a body, None if it lacks a field or has another type there, as a draft's schemas may say."""
    try:
        return read(*given)
    except (KeyError, TypeError, AttributeError):
        return None


def _response_body(schemas: Schemas, response: Response) -> Body | None:
    body = response.body
    if body is None or response.body_version is None:
        return None
    if response.api_key == API_VERSIONS:
        return _advertisement(schemas, response.body_version, body)
    if response.api_key in HEARTBEAT_APIS:
        member_id = bounded_or_none(body["memberId"])
        return HeartbeatResponse(body["errorCode"], member_id, body["heartbeatIntervalMs"])
    if response.api_key == GET_TELEMETRY_SUBSCRIPTIONS:
        return _telemetry(body)
    return None


def _misplaced_refusal(schemas: Schemas, frame: bytes) -> Body | None:
    """Read an ApiVersions response as a refusal in a wrong layout.

    Its error code stands behind header v1, which has a tag section, or no layout fits what follows it.
    """
    if frame[4:6] == _REFUSAL:
        return Advertisement(UNSUPPORTED_VERSION, NO_LAYOUT, ())
    if frame[4:7] != b"\0" + _REFUSAL:
        return None
    refusal = read_response(schemas, frame[:4] + frame[5:], API_VERSIONS, 0)
    if refusal.body is None or refusal.remarks:
        return None
    return _advertisement(schemas, OTHER_HEADER, refusal.body)


def _cluster_description(record: Record, response: Response) -> Body | None:
    """Read the cluster ID, and the node ID of the broker at the other end of the connection."""
    body = response.body
    if body is None or record.paired_api_key not in (METADATA, DESCRIBE_CLUSTER):
        return None
    of_brokers = body.get("endpointType", _BROKERS) == _BROKERS
    if "clusterId" not in body or body.get("errorCode", 0) != 0 or not of_brokers:
        return None
    nodes, named = [], []
    for node in body["brokers"]:
        node_id, host = node.get("nodeId", node.get("brokerId", NO_NODE)), _packed(node["host"])
        if host is not None and Endpoint.of(host, node["port"]) == record.server:
            nodes.append(node_id)
        elif host is None and record.server.endswith(f":{node['port']}"):
            named.append(node_id)
    node_id, kept = nodes[0] if len(nodes) == 1 else NO_NODE, tuple(sorted(named)[:NAMED_LIMIT])
    described = ClusterDescription(bounded_or_none(body["clusterId"]), node_id, kept)
    return None if described.cluster_id is None and node_id == NO_NODE else described


def _packed(host: str) -> bytes | None:
    """Return the bytes of an IP address, None for a name."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return None


def _software(body: Mapping[str, Any]) -> Body | None:
    if "clientSoftwareName" not in body:
        return None
    return SoftwareClaim(
        bounded(body["clientSoftwareName"]),
        bounded(body["clientSoftwareVersion"]),
        bounded_or_none(body.get("clusterId")),
        body.get("nodeId", NO_NODE),
    )


def _heartbeat(api_key: int, body: Mapping[str, Any]) -> Body:
    member_id, group_id = bounded(body["memberId"]), bounded(body["groupId"])
    return Heartbeat(member_id, group_id, body["memberEpoch"], is_well_formed(api_key, body))


def _advertisement(schemas: Schemas, body_version: int, body: Mapping[str, Any]) -> Body:
    ranges = tuple((entry["apiKey"], entry["minVersion"], entry["maxVersion"]) for entry in body["apiKeys"])
    return Advertisement(
        body["errorCode"],
        body_version,
        ranges,
        header_offer(schemas, ranges),
        _features(body.get("supportedFeatures", ()), "minVersion", "maxVersion"),
        _features(body.get("finalizedFeatures", ()), "minVersionLevel", "maxVersionLevel"),
    )


def _features(listed: Sequence[Mapping[str, Any]], lowest: str, highest: str) -> Features:
    """Read features by name; those beyond FEATURES_LIMIT are left out."""
    features = ((bounded(each["name"]), each[lowest], each[highest]) for each in listed[:FEATURES_LIMIT])
    return tuple(sorted(features))


def _telemetry(body: Mapping[str, Any]) -> Body | None:
    return TelemetryIdentity(body["clientInstanceId"]) if "clientInstanceId" in body else None


def _share_member(body: Mapping[str, Any]) -> Body | None:
    member_id = body["memberId"]
    return MemberRequest(bounded_or_none(body["groupId"]), bounded(member_id)) if member_id else None


def _committing_member(body: Mapping[str, Any]) -> Body | None:
    member_id = body.get("memberId", "")
    is_own = 0 < len(member_id.encode()) <= LONGEST_OWN_MEMBER_ID
    return MemberRequest(bounded(body["groupId"]), member_id) if is_own else None


def _classic_group(body: Mapping[str, Any]) -> Body | None:
    return ClassicGroup(bounded(body["groupId"]))


_REQUEST_BODIES: dict[int, Callable[[Mapping[str, Any]], Body | None]] = {
    API_VERSIONS: _software,
    **{key: functools.partial(_heartbeat, key) for key in HEARTBEAT_APIS},
    **dict.fromkeys((GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY), _telemetry),
    **dict.fromkeys((SHARE_FETCH, SHARE_ACKNOWLEDGE), _share_member),
    **dict.fromkeys((OFFSET_COMMIT, TXN_OFFSET_COMMIT), _committing_member),
    **dict.fromkeys((JOIN_GROUP, LEAVE_GROUP), _classic_group),
}
COMMITS = (OFFSET_COMMIT, TXN_OFFSET_COMMIT)
MEMBER_REQUESTS = (SHARE_FETCH, SHARE_ACKNOWLEDGE, *COMMITS)
"""Requests whose body is read as columns, since members send them all the time."""
REQUESTS_WITH_BODY = tuple(key for key in _REQUEST_BODIES if key not in MEMBER_REQUESTS)
RESPONSES_WITH_BODY = (API_VERSIONS, *HEARTBEAT_APIS, GET_TELEMETRY_SUBSCRIPTIONS, METADATA, DESCRIBE_CLUSTER)
"""The APIs whose response bodies rules read, beyond error codes."""


def header_offer(schemas: Schemas, ranges: Iterable[tuple[int, int, int]]) -> HeaderOffer:
    """Return what advertised ranges (API key, lowest version, highest version) offer on request header v3.

    KIP-1313 gives each API but SaslHandshake a version on request header v3; the schemas say which one it is.
    An inverted range offers and withholds nothing. A range that ends below an unstable version withholds
    nothing, either: brokers advertise neither an unstable version nor those above it.
    """
    offered, withheld = [], []
    for key, lowest, highest in ranges:
        api = schemas.api(key)
        first = _first_version(api) if api is not None else None
        if api is None or first is None or lowest > highest:
            continue
        if highest >= first:
            offered.append((key, first))
        elif api.unstable_version is None:
            withheld.append(key)
    return HeaderOffer(tuple(offered), tuple(withheld)) if offered else HeaderOffer()


def _first_version(api: Api) -> int | None:
    """Return the lowest version of an API on request header v3, None if it has none."""
    if not api.versions:
        return None
    # The header version never decreases, and few of an API's versions are on the newest header.
    found: int | None = None
    for version in range(api.versions.highest, api.versions.lowest - 1, -1):
        if api.request_header_version(version) != _HEADER_VERSION:
            break
        found = version
    return found


def is_well_formed(api_key: int, body: Mapping[str, Any]) -> bool:
    """Whether a heartbeat has, apart from its member ID, the form that brokers demand.

    Brokers refuse any other form with INVALID_REQUEST, as they refuse a missing member ID. So a refusal is
    about the member ID only if everything else is well formed. The demands of brokers are in Kafka's
    GroupCoordinatorService: throwIfConsumerGroupHeartbeatRequestIsInvalid and
    throwIfShareGroupHeartbeatRequestIsInvalid. False for an API whose form is unknown.
    """
    epoch, static_id = body["memberEpoch"], body.get("instanceId")
    optional_names = static_id, body.get("rackId")
    if is_blank(body["groupId"]) or any(name is not None and is_blank(name) for name in optional_names):
        return False
    if api_key == CONSUMER_GROUP_HEARTBEAT:
        is_static = epoch == STATIC_LEAVING and static_id is not None
        return is_static or _stays_or_leaves(epoch) or (epoch == JOINING and _joins_consumers(body))
    if api_key == SHARE_GROUP_HEARTBEAT:
        return _stays_or_leaves(epoch) or (epoch == JOINING and bool(body.get("subscribedTopicNames")))
    return False


def _stays_or_leaves(epoch: int) -> bool:
    return epoch > JOINING or epoch == LEAVING


def _joins_consumers(body: Mapping[str, Any]) -> bool:
    topics, regex = body.get("subscribedTopicNames"), body.get("subscribedTopicRegex")
    owns_nothing = body.get("topicPartitions") == []
    has_timeout = body.get("rebalanceTimeoutMs") != NO_TIMEOUT
    return (topics is not None or regex is not None) and owns_nothing and has_timeout
