"""Frames read by both readers, which must agree in all that they return."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoders.codec.columnar.frames import DecodedFrames, Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.schema.model import Struct
from decoders.schema.registry import Schemas, default_schemas
from tests.decoders.codec.columnar_values import head_of, values_of


@dataclass(frozen=True)
class Sample:
    """A frame and what both readers know of it; `paired` is the API and version of a response."""

    frame: bytes
    is_cut: bool = False
    paired: tuple[int, int] | None = None


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
    """The samples one behind the other, a byte that belongs to none between them."""
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


SCHEMAS = default_schemas()
TYPES = {
    message: {name.partition(".")[2]: kind for name, kind in _leaves(message.struct, message.name)}
    for api in SCHEMAS.apis
    for message in (api.request, api.response)
}


@functools.cache
def _reader() -> ColumnarReader:
    """The reader of every field, made once and only where it is used."""
    return ColumnarReader(SCHEMAS, fields_of(SCHEMAS))


def hold_against_the_scalar_reader(samples: Sequence[Sample]) -> DecodedFrames:
    """Read samples with both readers and compare; returns what the columnar reader returned."""
    decoded = _reader().read(frames_of(samples))
    for number, sample in enumerate(samples):
        scalar = _scalar(sample)
        assert head_of(decoded, number) == _head_of_scalar(scalar, sample.frame), sample
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
    """The bytes of the client ID, in which the scalar reader replaces what is not UTF-8."""
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
