"""Observing: decodes a record and keeps what rules read of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from decoders.codec.acknowledgement import expects_response
from decoders.codec.failure import DecodeFailure, Oddity, Remark
from decoders.codec.other_header import other_header
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Flag, Kind, Record
from decoders.protocol import PRODUCE
from decoders.schema.registry import Schemas
from expectations.conversation.body_reader import request_body, response_body
from expectations.conversation.bounded_text import bounded_or_none
from expectations.conversation.error_codes import error_codes
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
_FIRST_BYTES: Final = 4
"""Of a connection that did not begin with a request. Whoever writes to the topic may write more."""


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
        return int.from_bytes(record.frame[:_FIRST_BYTES])
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
        size=record.true_length,
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
        body=request_body(request),
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
    statement = Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        pairing=record.pairing,
        known=response.known,
        api_key=record.paired_api_key,
        api_version=record.paired_api_version,
        failure=_failure(response.failure),
        body=response_body(schemas, record, response),
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
