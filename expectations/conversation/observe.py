"""From records to observations: decode a frame and keep what rules ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decoders.codec.failure import DecodeFailure, Reason
from decoders.codec.request import Request, read_request
from decoders.codec.response import read_response
from decoders.frame.record import Flag, Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.observation import (
    API_VERSIONS,
    HEARTBEAT_APIS,
    Advertisement,
    Body,
    Evidence,
    Failure,
    Heartbeat,
    HeartbeatAnswer,
    Observation,
    SoftwareClaim,
)


def observe(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    """Tell what a record says. Never raises: what cannot be decoded is told as such."""
    if record.kind is Kind.REQUEST:
        return _observe_request(schemas, record, evidence)
    if record.kind is Kind.RESPONSE:
        return _observe_response(schemas, record, evidence)
    return Observation(
        **_common(record, evidence), closing=record.closing, mid_stream=Flag.MID_STREAM in record.flags
    )


def _common(record: Record, evidence: Evidence) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "first_sequence": record.sequence,
        "last_sequence": record.sequence,
        "first_captured_at": record.captured_at,
        "last_captured_at": record.captured_at,
        "evidence": evidence,
        "direction": record.direction,
        "cut": record.is_cut,
    }


def _observe_request(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    request = read_request(schemas, record.frame, cut=record.is_cut)
    certain = request.known and request.failure is None
    return Observation(
        **_common(record, evidence),
        settled=Flag.SETTLED in record.flags,
        known=request.known,
        api_key=_number(request.api_key),
        api_version=_number(request.api_version),
        correlation_id=request.correlation_id,
        header_version=request.header_version if certain else None,
        client_id=request.client_id if certain else None,
        client_instance_id=request.client_instance_id if certain else None,
        failure=_failure(request.failure),
        body=_request_body(request),
    )


def _observe_response(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    response = read_response(
        schemas, record.frame, record.paired_api_key, record.paired_api_version, cut=record.is_cut
    )
    body = None
    if response.body is not None:
        body = _response_body(record.paired_api_key, response.body_version, response.body)
    return Observation(
        **_common(record, evidence),
        pairing=record.pairing,
        known=response.known,
        api_key=record.paired_api_key,
        api_version=record.paired_api_version,
        correlation_id=response.correlation_id,
        paired_sequence=record.paired_sequence,
        failure=_failure(response.failure),
        body=body,
    )


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _failure(failure: DecodeFailure | None) -> Failure | None:
    return None if failure is None else Failure(str(failure.reason), failure.path, failure.offset)


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


def _response_body(api_key: int, body_version: int | None, body: Mapping[str, Any]) -> Body | None:
    if api_key == API_VERSIONS:
        return _advertisement(_number(body_version), body)
    if api_key in HEARTBEAT_APIS:
        return HeartbeatAnswer(body["errorCode"], body["memberId"], body["heartbeatIntervalMs"])
    return None


def _software(body: Mapping[str, Any]) -> Body | None:
    if "clientSoftwareName" not in body:
        return None
    return SoftwareClaim(body["clientSoftwareName"], body["clientSoftwareVersion"])


def _heartbeat(body: Mapping[str, Any]) -> Body:
    return Heartbeat(body["memberId"], body["groupId"], body["memberEpoch"])


def _advertisement(body_version: int, body: Mapping[str, Any]) -> Body:
    ranges = tuple((entry["apiKey"], entry["minVersion"], entry["maxVersion"]) for entry in body["apiKeys"])
    return Advertisement(body["errorCode"], body_version, ranges)


_REQUEST_BODIES: dict[int, Callable[[Mapping[str, Any]], Body | None]] = {
    API_VERSIONS: _software,
    **dict.fromkeys(HEARTBEAT_APIS, _heartbeat),
}
