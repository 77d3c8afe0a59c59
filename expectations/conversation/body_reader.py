"""Reads of a decoded body what rules read: the body of a statement."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decoders.codec.failure import DecodeFailure, Reason
from decoders.codec.request import Request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Endpoint, Record
from decoders.protocol import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    GET_TELEMETRY_SUBSCRIPTIONS,
    HEARTBEAT_APIS,
    JOIN_GROUP,
    LEAVE_GROUP,
    METADATA,
    OFFSET_COMMIT,
    PUSH_TELEMETRY,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    TXN_OFFSET_COMMIT,
)
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import (
    LONGEST_OWN_MEMBER_ID,
    NAMED_LIMIT,
    NO_NODE,
    OTHER_HEADER,
    Advertisement,
    Body,
    ClassicGroup,
    ClusterDescription,
    Features,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    SoftwareClaim,
    TelemetryIdentity,
)
from expectations.conversation.bounded_text import bounded, bounded_or_none
from expectations.conversation.header_offer import header_offer
from expectations.conversation.heartbeat_form import form_of, is_well_formed

_TAGS_AND_REFUSAL = b"\x00\x00\x23"
"""An empty tag section, then error 35."""
FEATURES_LIMIT = 64
"""Features of an advertisement that are kept. Kafka has ten."""
_BROKERS = 1
"""The endpoint type of a DescribeCluster response that lists brokers, not controllers."""


def request_body(request: Request) -> Body | None:
    """Return what rules read of a request's body, None if that is nothing."""
    if not request.known:
        return None
    if request.api_key in HEARTBEAT_APIS and _is_null_member_id(request.failure):
        return Heartbeat(member_id=None)
    if request.body is None or request.api_key is None:
        return None
    read = _REQUEST_BODIES.get(request.api_key)
    return read(request.body) if read else None


def _is_null_member_id(failure: DecodeFailure | None) -> bool:
    return failure is not None and failure.path == "memberId" and failure.reason is Reason.NULL_NOT_ALLOWED


def response_body(schemas: Schemas, record: Record, response: Response) -> Body | None:
    """Return what rules read of the body of a response, which the record holds; None if that is nothing."""
    body = _cluster_description(record, response) or _response_body(schemas, response)
    if body is None and record.paired_api_key == API_VERSIONS and not record.is_cut:
        body = _misplaced_refusal(schemas, record.frame)
    return body


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
    """Read a response as the refusal of an ApiVersions version behind header 1, which has a tag section."""
    if frame[4:7] != _TAGS_AND_REFUSAL:
        return None
    refusal = read_response(schemas, frame[:4] + frame[5:], API_VERSIONS, 0)
    if refusal.body is None or refusal.remarks:
        return None
    return _advertisement(schemas, OTHER_HEADER, refusal.body)


def _cluster_description(record: Record, response: Response) -> Body | None:
    """Read the cluster ID and the node ID of the broker at the other end of the record's connection."""
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
    return Heartbeat(member_id, group_id, body["memberEpoch"], is_well_formed(form_of(api_key, body)))


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
"""Keys of the APIs of whose bodies a statement keeps more than error codes."""
