"""Observing: decodes a record and keeps what rules read."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from decoders.codec.acknowledgement import expects_response
from decoders.codec.failure import DecodeFailure, Oddity, Reason, Remark
from decoders.codec.other_header import other_header
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Endpoint, Flag, Kind, Record
from decoders.protocol import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    GET_TELEMETRY_SUBSCRIPTIONS,
    HEARTBEAT_APIS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
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
    ClusterDescription,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    SoftwareClaim,
    TelemetryIdentity,
)
from expectations.conversation.bounded_text import bounded, bounded_or_none
from expectations.conversation.error_codes import error_codes
from expectations.conversation.header_offer import header_offer
from expectations.conversation.heartbeat_form import form_of, is_well_formed
from expectations.conversation.observation import Observation
from expectations.conversation.occurrence import Evidence, Occurrence
from expectations.conversation.statement import Failure, Statement

_LEFT = (Oddity.TRAILING_BYTES, Oddity.TAG_SIZE_MISMATCH)
"""Bytes that no field accounts for."""
_NOT_CANONICAL = (
    Oddity.TAG_ORDER,
    Oddity.OVERLONG_VARINT,
    Oddity.NEGATIVE_LENGTH,
    Oddity.INVALID_UTF8,
)
"""Fields that are encoded in another way than Kafka does."""
_TAGS_AND_REFUSAL = b"\x00\x00\x23"
"""An empty tag section, then error 35."""
_BROKERS = 1
"""The endpoint type of a DescribeCluster response that lists brokers, not controllers."""


def observe(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    """Decode a record. Never raises: a frame that cannot be decoded becomes a statement with a failure."""
    if record.kind is Kind.REQUEST:
        return _observe_request(schemas, record, evidence)
    if record.kind is Kind.RESPONSE:
        return _observe_response(schemas, record, evidence)
    statement = Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        closing=record.closing,
        mid_stream=Flag.MID_STREAM in record.flags,
        size=_size(record),
        named_port=Flag.NAMED_PORT in record.flags,
        responded=Flag.RESPONDED in record.flags,
    )
    return Observation(statement, _occurrence(record, evidence))


def _size(record: Record) -> int:
    if record.kind is Kind.NOT_KAFKA:
        return int.from_bytes(record.frame)
    return record.true_length if record.kind is Kind.INVALID_SIZE else 0


def _occurrence(
    record: Record, evidence: Evidence, correlation_id: int | None = None, paired_sequence: int = 0
) -> Occurrence:
    return Occurrence(
        record.sequence,
        record.sequence,
        record.captured_at,
        record.captured_at,
        evidence,
        correlation_id=correlation_id,
        paired_sequence=paired_sequence,
    )


def _observe_request(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    request = read_request(schemas, record.frame, cut=record.is_cut)
    certain = request.known and request.failure is None
    statement = Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        settled=Flag.SETTLED in record.flags,
        known=request.known,
        api_key=_number(request.api_key),
        api_version=_number(request.api_version),
        header_version=request.header_version if certain else None,
        client_id=bounded_or_none(request.client_id) if certain else None,
        client_instance_id=request.client_instance_id if certain else None,
        failure=_failure(request.failure),
        body=_request_body(request),
        oddity=_first(_LEFT, request.remarks),
        layout=request.layout if certain else None,
        other_header=_other_header(schemas, record, request),
        expects_response=request.api_key != PRODUCE or expects_response(schemas, record.frame) is not False,
        unproven=_is_unproven(request),
        encoding=_first(_NOT_CANONICAL, request.remarks),
        informed=Flag.INFORMED in record.flags,
        draft_instance_id=request.draft_instance_id if certain else None,
    )
    return Observation(statement, _occurrence(record, evidence, request.correlation_id))


def _observe_response(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    response = read_response(
        schemas, record.frame, record.paired_api_key, record.paired_api_version, cut=record.is_cut
    )
    body = _cluster_description(record, response) or _response_body(schemas, response)
    if body is None and record.paired_api_key == API_VERSIONS and not record.is_cut:
        body = _misplaced_refusal(schemas, record.frame)
    statement = Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        pairing=record.pairing,
        known=response.known,
        api_key=record.paired_api_key,
        api_version=record.paired_api_version,
        failure=_failure(response.failure),
        body=body,
        oddity=_first(_LEFT, response.remarks),
        errors=_errors(response),
        encoding=_first(_NOT_CANONICAL, response.remarks),
    )
    occurrence = _occurrence(record, evidence, response.correlation_id, record.paired_sequence)
    return Observation(statement, occurrence)


def _errors(response: Response) -> tuple[int, ...] | None:
    if response.api is None or response.body is None:
        return None
    return error_codes(response.api.response, response.body)


def _other_header(schemas: Schemas, record: Record, request: Request) -> int | None:
    """Try other header versions only where the assigned one does not fit the whole frame."""
    fits = request.known and request.failure is None and not request.remarks
    if fits or request.api is None or request.api_version not in request.api.versions or record.is_cut:
        return None
    return other_header(schemas, request.api, request.api_version, record.frame)


def _is_unproven(request: Request) -> bool:
    is_given = request.api is not None and request.api.is_overlay(request.api_version)
    return is_given and request.cut and not request.known


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _failure(failure: DecodeFailure | None) -> Failure | None:
    return None if failure is None else Failure(str(failure.reason), failure.path, failure.offset)


def _first(oddities: Collection[Oddity], remarks: Iterable[Remark]) -> Failure | None:
    """Return the first remark on one of these oddities."""
    return next(
        (Failure(str(each.oddity), each.path, each.offset) for each in remarks if each.oddity in oddities),
        None,
    )


def _request_body(request: Request) -> Body | None:
    if not request.known:
        return None
    if request.api_key in HEARTBEAT_APIS and _is_null_member_id(request.failure):
        return Heartbeat(member_id=None)
    if request.body is None:
        return None
    read = _REQUEST_BODIES.get(_number(request.api_key))
    return read(request.body) if read else None


def _is_null_member_id(failure: DecodeFailure | None) -> bool:
    return failure is not None and failure.path == "memberId" and failure.reason is Reason.NULL_NOT_ALLOWED


def _response_body(schemas: Schemas, response: Response) -> Body | None:
    body = response.body
    if body is None:
        return None
    if response.api_key == API_VERSIONS:
        return _advertisement(schemas, _number(response.body_version), body)
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
    return Advertisement(body["errorCode"], body_version, ranges, header_offer(schemas, ranges))


def _telemetry(body: Mapping[str, Any]) -> Body | None:
    return TelemetryIdentity(body["clientInstanceId"]) if "clientInstanceId" in body else None


def _share_member(body: Mapping[str, Any]) -> Body | None:
    member_id = body["memberId"]
    return MemberRequest(bounded_or_none(body["groupId"]), bounded(member_id)) if member_id else None


def _committing_member(body: Mapping[str, Any]) -> Body | None:
    member_id = body.get("memberId", "")
    is_own = 0 < len(member_id.encode()) <= LONGEST_OWN_MEMBER_ID
    return MemberRequest(bounded(body["groupId"]), member_id) if is_own else None


_REQUEST_BODIES: dict[int, Callable[[Mapping[str, Any]], Body | None]] = {
    API_VERSIONS: _software,
    **{key: functools.partial(_heartbeat, key) for key in HEARTBEAT_APIS},
    **dict.fromkeys((GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY), _telemetry),
    **dict.fromkeys((SHARE_FETCH, SHARE_ACKNOWLEDGE), _share_member),
    **dict.fromkeys((OFFSET_COMMIT, TXN_OFFSET_COMMIT), _committing_member),
}
COMMITS = (OFFSET_COMMIT, TXN_OFFSET_COMMIT)
MEMBER_REQUESTS = (SHARE_FETCH, SHARE_ACKNOWLEDGE, *COMMITS)
"""Requests whose body is read as columns, since members send them all the time."""
REQUESTS_WITH_BODY = tuple(key for key in _REQUEST_BODIES if key not in MEMBER_REQUESTS)
RESPONSES_WITH_BODY = (API_VERSIONS, *HEARTBEAT_APIS, GET_TELEMETRY_SUBSCRIPTIONS, METADATA, DESCRIBE_CLUSTER)
"""Keys of the APIs of whose bodies a statement keeps more than error codes."""
