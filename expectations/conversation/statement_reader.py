"""Decodes a record into its statement.

`read_statement` calls the codec, reads the body (`body_reader.py`), and collects the error codes of a
response. It defines what a record says; `columnar` reads most frames as columns and leaves the others to it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Oddity, Remark
from decoders.codec.request import Request, expects_response, lasting_failure, other_header, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Flag, Kind, Record, is_placement
from decoders.protocol import PRODUCE
from decoders.schema.model import Message, Struct
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import Placement, Principal
from expectations.conversation.body_reader import request_body, response_body
from expectations.conversation.observation import Failure, Statement
from expectations.conversation.texts import bounded, bounded_or_none, is_blank

_LEFT = (Oddity.TRAILING_BYTES, Oddity.TAG_SIZE_MISMATCH)
"""Bytes that no field accounts for."""
_NOT_CANONICAL = (
    Oddity.TAG_ORDER,
    Oddity.OVERLONG_VARINT,
    Oddity.NEGATIVE_LENGTH,
    Oddity.INVALID_UTF8,
)
"""Fields that are encoded in another way than Kafka does."""
_CORRELATION_ID_AT: Final = {Kind.REQUEST: 4, Kind.RESPONSE: 0}
_INT32_BYTES: Final = 4
_FIRST_BYTES: Final = 4
"""Bytes read of a connection that did not begin with a request. The topic may hold more."""


def read_statement(schemas: Schemas, record: Record) -> Statement:
    """Decode a record. Never raises: a frame that cannot be decoded becomes a statement with a failure."""
    if record.kind is Kind.REQUEST:
        return _of_request(schemas, record)
    if record.kind is Kind.RESPONSE:
        return _of_response(schemas, record)
    return Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        closing=record.closing,
        mid_stream=Flag.MID_STREAM in record.flags,
        size=_size(record),
        named_port=Flag.NAMED_PORT in record.flags,
        responded=Flag.RESPONDED in record.flags,
        body=_name(record),
    )


def correlation_id(record: Record) -> int | None:
    """Return the correlation ID of a request or response, None for an event and for a frame without one."""
    begin = _CORRELATION_ID_AT.get(record.kind, len(record.frame))
    content = record.frame[begin : begin + _INT32_BYTES]
    return int.from_bytes(content, signed=True) if len(content) == _INT32_BYTES else None


def _size(record: Record) -> int:
    if record.kind is Kind.NOT_KAFKA:
        return int.from_bytes(record.frame[:_FIRST_BYTES])
    return record.true_length if record.kind is Kind.INVALID_SIZE else 0


def _name(record: Record) -> Principal | Placement | None:
    """Return the name that a record has for the client. The topic may hold more: what is no name is none."""
    if record.kind is Kind.PLACEMENT:
        name = record.frame.decode(errors="replace")
        return Placement(name) if is_placement(name) or not name else None
    if record.kind is not Kind.PRINCIPAL:
        return None
    name = record.frame.decode(errors="replace")
    return Principal(bounded(name)) if name.isprintable() and not is_blank(name) else None


def _of_request(schemas: Schemas, record: Record) -> Statement:
    request = read_request(schemas, record.frame, cut=record.is_cut)
    certain = request.known and request.failure is None
    return Statement(
        record.kind,
        record.direction,
        cut=record.is_cut,
        settled=Flag.SETTLED in record.flags,
        known=request.known,
        api_key=_number(request.api_key),
        api_version=_number(request.api_version),
        header_version=request.header_version if certain else None,
        client_id=bounded_or_none(request.client_id) if certain or not request.known else None,
        client_instance_id=request.client_instance_id if certain else None,
        failure=_failure(request.failure or _lasting_failure(schemas, record, request)),
        body=request_body(request),
        oddity=_first(_LEFT, request.remarks),
        layout=request.layout if certain else None,
        other_header=_other_header(schemas, record, request),
        expects_response=request.api_key != PRODUCE or expects_response(schemas, record.frame) is not False,
        unproven=_is_unproven(request),
        encoding=_first(_NOT_CANONICAL, request.remarks),
        informed=Flag.INFORMED in record.flags,
        draft_instance_id=request.draft_instance_id if certain else None,
        read_whole=record.is_cut and Flag.READ_WHOLE in record.flags,
    )


def _of_response(schemas: Schemas, record: Record) -> Statement:
    response = read_response(
        schemas, record.frame, record.paired_api_key, record.paired_api_version, cut=record.is_cut
    )
    return Statement(
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
        read_whole=record.is_cut and Flag.READ_WHOLE in record.flags,
    )


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


def _lasting_failure(schemas: Schemas, record: Record, request: Request) -> DecodeFailure | None:
    """Return what is wrong in the header of a version that no schema has."""
    api, version = request.api, request.api_version
    if request.known or request.correlation_id is None or api is None or version in api.versions:
        return None
    return lasting_failure(schemas, api, version, record.frame, record.true_length)


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


_SUFFIX = "rrorCode"


def error_codes(response: Message, body: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the distinct error codes of a body in ascending order, 0 (no error) included.

    Kafka's schemas name such a field `errorCode`, or end its name in `ErrorCode`.
    """
    return tuple(sorted(set(_codes(response.struct, body))))


def _codes(struct: Struct, values: Mapping[str, Any]) -> Iterator[int]:
    for name, nested in _places(struct):
        value = values.get(name)
        if value is None:
            continue
        if nested is None:
            yield value
            continue
        for item in value if isinstance(value, list) else (value,):
            yield from _codes(nested, item)


@functools.cache
def _places(struct: Struct) -> tuple[tuple[str, Struct | None], ...]:
    """Return the fields of a struct that are error codes (with None) or contain some (with their struct)."""
    return tuple(
        (field.name, field.struct)
        for field in struct.fields
        if (field.type == "int16" and field.name.endswith(_SUFFIX))
        or (field.struct is not None and _places(field.struct))
    )


def error_code_paths(struct: Struct) -> tuple[str, ...]:
    """Return the paths of all fields that `error_codes` reads, such as `topics.errorCode`."""
    return tuple(
        name if nested is None else f"{name}.{path}"
        for name, nested in _places(struct)
        for path in ((name,) if nested is None else error_code_paths(nested))
    )


def has_tagged_error_code(struct: Struct) -> bool:
    """Return whether an error code is a tagged field or inside one, and so may be absent from the bytes."""
    fields = {field.name: field for field in struct.fields}
    return any(
        fields[name].tag is not None or (nested is not None and has_tagged_error_code(nested))
        for name, nested in _places(struct)
    )
