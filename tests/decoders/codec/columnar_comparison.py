"""Frames read by both readers, whose results must be equal, and columnar results as Python values."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from decoders.codec.columnar import frames
from decoders.codec.columnar.frames import TAGGED_LAYOUT, DecodedFrames, FieldColumn, Frames, ValueType
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.failure import Defect, Oddity
from decoders.codec.request import ZERO_INSTANCE_ID, Request, read_request
from decoders.codec.response import Response, read_response
from decoders.schema.header_versions import Layout
from decoders.schema.model import Struct
from decoders.schema.registry import Schemas
from tests.decoders.codec.samples import SCHEMAS, Sample

REASONS = {
    frames.TRUNCATED: Defect.TRUNCATED,
    frames.NULL_NOT_ALLOWED: Defect.NULL_NOT_ALLOWED,
    frames.INVALID_LENGTH: Defect.INVALID_LENGTH,
    frames.INVALID_TAG: Defect.INVALID_TAG,
    frames.INVALID_VARINT: Defect.INVALID_VARINT,
}
ODDITIES = {
    frames.TRAILING_BYTES: Oddity.TRAILING_BYTES,
    frames.TAG_SIZE_MISMATCH: Oddity.TAG_SIZE_MISMATCH,
    frames.TAG_ORDER: Oddity.TAG_ORDER,
    frames.OVERLONG_VARINT: Oddity.OVERLONG_VARINT,
    frames.NEGATIVE_LENGTH: Oddity.NEGATIVE_LENGTH,
    frames.INVALID_UTF8: Oddity.INVALID_UTF8,
}
LAYOUTS = {
    frames.NO_LAYOUT: None,
    frames.PLAIN_LAYOUT: Layout.PLAIN,
    frames.TAGGED_LAYOUT: Layout.TAGGED,
}


def fields_of(schemas: Schemas) -> dict[str, list[str]]:
    """Every field of every message that is not a struct, as a column of its own."""
    messages = [message for api in schemas.apis for message in (api.request, api.response)]
    return {name: [name] for message in messages for name, _ in _leaves(message.struct, message.name)}


def _leaves(struct: Struct, prefix: str) -> Iterator[tuple[str, str]]:
    for field in struct.fields:
        if field.struct is None:
            yield f"{prefix}.{field.name}", field.type
        else:
            yield from _leaves(field.struct, f"{prefix}.{field.name}")


def frames_of(samples: Sequence[Sample]) -> Frames:
    """The samples in a row, with a byte between them that belongs to none."""
    lengths = np.array([len(sample.frame) for sample in samples], np.int32)
    paired = np.array([sample.paired or (-1, -1) for sample in samples], np.int16).reshape(-1, 2)
    return Frames(
        data=np.frombuffer(b"\xa5".join(sample.frame for sample in samples) + b"\xa5", np.uint8),
        begins=np.concatenate([[0], np.cumsum(lengths[:-1] + 1, dtype=np.int64)])[: len(samples)],
        lengths=lengths,
        is_cut=np.array([sample.is_cut for sample in samples], np.bool_),
        is_request=np.array([sample.paired is None for sample in samples], np.bool_),
        paired_keys=np.ascontiguousarray(paired[:, 0]),
        paired_versions=np.ascontiguousarray(paired[:, 1]),
    )


TYPES = {
    message: {name.partition(".")[2]: kind for name, kind in _leaves(message.struct, message.name)}
    for api in SCHEMAS.apis
    for message in (api.request, api.response)
}


@functools.cache
def _reader() -> ColumnarReader:
    """The reader of every field, made once and only where it is used."""
    return ColumnarReader(SCHEMAS, fields_of(SCHEMAS))


@functools.cache
def _reader_of_heads() -> ColumnarReader:
    """The reader of no field, which passes over arrays of fixed size at once."""
    return ColumnarReader(SCHEMAS)


def hold_against_the_scalar_reader(samples: Sequence[Sample]) -> DecodedFrames:
    """Read samples with both readers and compare; return the columnar result."""
    decoded, heads = (reader.read(frames_of(samples)) for reader in (_reader(), _reader_of_heads()))
    for number, sample in enumerate(samples):
        scalar = _scalar(sample)
        expected = _head_of_scalar(scalar, sample.frame)
        assert head_of(decoded, number) == expected, sample
        assert head_of(heads, number) == expected, sample
        assert _values_by_path(decoded, number) == _spans_of(scalar, sample.frame), sample
    return decoded


def _scalar(sample: Sample) -> Request | Response:
    if sample.paired is None:
        api = SCHEMAS.api(struct.unpack_from(">h", sample.frame)[0]) if len(sample.frame) >= 2 else None
        spans = TYPES[api.request] if api else ()
        return read_request(SCHEMAS, sample.frame, cut=sample.is_cut, spans=spans)
    api = SCHEMAS.api(sample.paired[0])
    spans = TYPES[api.response] if api else ()
    return read_response(SCHEMAS, sample.frame, *sample.paired, cut=sample.is_cut, spans=spans)


def _head_of_scalar(scalar: Request | Response, frame: bytes) -> dict[str, Any]:
    failure = scalar.failure
    return {
        "known": scalar.known,
        "has_body": scalar.body is not None,
        "api": (scalar.api_key, scalar.api_version),
        "header_version": scalar.header_version,
        "correlation_id": scalar.correlation_id,
        "client_id": _client_id(scalar, frame),
        "layout": scalar.layout if isinstance(scalar, Request) else None,
        "client_instance_id": scalar.client_instance_id if isinstance(scalar, Request) else None,
        "body_version": scalar.body_version if isinstance(scalar, Response) else None,
        "failure": failure and (failure.reason, failure.path, failure.offset),
        "remarks": [(remark.oddity, remark.path, remark.offset) for remark in scalar.remarks],
    }


def _client_id(scalar: Request | Response, frame: bytes) -> bytes | None:
    """The bytes of the client ID; the scalar reader replaces invalid UTF-8 in them."""
    if isinstance(scalar, Response) or scalar.client_id is None:
        return None
    return frame[10 : 10 + int.from_bytes(frame[8:10])]


def _values_by_path(decoded: DecodedFrames, number: int) -> dict[str, list[Any]]:
    return {name.partition(".")[2]: values for name, values in values_of(decoded, number).items()}


def _spans_of(scalar: Request | Response, frame: bytes) -> dict[str, list[Any]]:
    """The contents of the scalar reader's spans; the columnar reader reports fields of whole bodies alone."""
    if scalar.body is None or scalar.api is None:
        return {}
    types = TYPES[scalar.api.request if isinstance(scalar, Request) else scalar.api.response]
    found = {path: spans for path, spans in scalar.spans.items() if spans}
    return {
        path: [_content(types[path], frame[begin:end]) for begin, end in spans]
        for path, spans in found.items()
    }


def _content(kind: str, content: bytes) -> Any:
    if kind in ("uuid", "string", "bytes", "records"):
        return content
    return int.from_bytes(content, signed=kind in ("int8", "int16", "int32", "int64", "float64"))


def head_of(decoded: DecodedFrames, number: int) -> dict[str, Any]:
    """The head of a frame, with None for absent values."""
    head = {name: decoded.heads[name][number].item() for name in decoded.heads.dtype.names or ()}
    reason = head["failure_reason"]
    return {
        "known": head["known"],
        "has_body": head["has_body"],
        "api": (head["api_key"], head["api_version"]),
        "header_version": _unless_negative(head["header_version"]),
        "correlation_id": head["correlation_id"] if head["has_correlation_id"] else None,
        "client_id": _bytes(decoded, head["client_id_begin"], head["client_id_length"]),
        "layout": LAYOUTS[head["layout"]],
        "client_instance_id": _bytes(decoded, head["client_instance_id_begin"], 16)
        or (ZERO_INSTANCE_ID if head["layout"] == TAGGED_LAYOUT else None),
        "body_version": _unless_negative(head["body_version"]),
        "failure": None
        if reason < 0
        else (REASONS[reason], decoded.paths[head["failure_path"]], head["failure_offset"]),
        "remarks": [
            (ODDITIES[oddity], decoded.paths[path], offset)
            for _, oddity, path, offset in _rows_of(decoded.remarks, number)
        ],
    }


def heads_of(decoded: DecodedFrames, name: str) -> list[Any]:
    """One value of the heads of all frames."""
    return [head_of(decoded, number)[name] for number in range(len(decoded.frames))]


def values_of(decoded: DecodedFrames, number: int) -> dict[str, list[Any]]:
    """The values of a frame by column, each as bytes or a number; columns without values are absent."""
    values: dict[str, list[Any]] = {}
    for _, at, value, length in _rows_of(decoded.found, number):
        column = decoded.columns[at]
        is_place = column.type in (ValueType.BYTES, ValueType.UUID)
        found = _bytes(decoded, value, length) if is_place else value
        values.setdefault(column.name, []).append(found)
    return values


def column_of(decoded: DecodedFrames, name: str) -> list[list[Any] | None]:
    """The values of a column for each frame; None for a frame of another message or one not read whole."""
    column = next(column for column in decoded.columns if column.name == name)
    columns: list[list[Any] | None] = []
    for number in range(len(decoded.frames)):
        values = values_of(decoded, number).get(name, [])
        assert not values or _may_have(decoded, column, number)
        typed = [_typed(column, value) for value in values]
        columns.append(typed if _may_have(decoded, column, number) else None)
    return columns


def _may_have(decoded: DecodedFrames, column: FieldColumn, number: int) -> bool:
    head = decoded.heads[number]
    fields = column.requests if decoded.frames.is_request[number] else column.responses
    return bool(head["has_body"]) and int(head["api_key"]) in fields


def _rows_of(rows: Any, number: int) -> Any:
    begin, end = np.searchsorted(rows[:, 0], [number, number + 1])
    return rows[begin:end].tolist()


def _typed(column: FieldColumn, value: Any) -> Any:
    match column.type:
        case ValueType.FLOAT:
            return struct.unpack("d", struct.pack("q", value))[0]
        case ValueType.BOOLEAN:
            return value != 0
    return value


def _bytes(decoded: DecodedFrames, begin: int, length: int) -> bytes | None:
    return None if begin < 0 else decoded.frames.data[begin : begin + length].tobytes()


def _unless_negative(number: int) -> int | None:
    return None if number < 0 else number
