"""A whole response frame: header and body, read and written.

A response does not state its API and version: they are those of the request it was paired with. If only
the KIP-1313 overlay has that version, the response is known only if it decodes under the overlay to its last
byte, or to its cut, for the reason that `codec/request.py` states.

A broker that does not support the version of an ApiVersions request responds with error 35 in the layout of
version 0 (KIP-511). `body_version` says which layout a response has.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Defect, EncodeError, Remark
from decoders.codec.program import compile_message
from decoders.codec.reader import Reading, Spans, read_frame
from decoders.codec.writer import write
from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from decoders.schema.registry import Api, Schemas

_INT32: Final = struct.Struct(">i")
_ERROR_CODE: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Response:
    """The content of a response frame, given the API and version of its request.

    `known` is False if the schemas do not have that API or version, or the frame does not prove it. Then only
    the correlation ID is set. `body_version` is the version whose layout the body has: that of the request,
    or 0 for the response to an unsupported ApiVersions. `body` is None unless it was read whole. `failure`
    says why a known frame could not be read; the end of a `cut` frame is not a failure.
    """

    api_key: int
    api_version: int
    api: Api | None = None
    header_version: int | None = None
    correlation_id: int | None = None
    body: dict[str, Any] | None = None
    body_version: int | None = None
    remarks: tuple[Remark, ...] = ()
    failure: DecodeFailure | None = None
    known: bool = True
    cut: bool = False
    spans: Spans = field(default_factory=dict)


def read_response(
    schemas: Schemas,
    frame: bytes,
    api_key: int,
    api_version: int,
    *,
    cut: bool = False,
    spans: Collection[str] = (),
) -> Response:
    """Read a response frame without its length prefix. Raises nothing, whatever the bytes.

    `cut` says that the frame's tail is missing. `spans` are the paths of body fields whose places in the
    frame are requested (`responses.partitions.records`).
    """
    api = schemas.api(api_key)
    if len(frame) < _INT32.size:
        failure = None if cut else DecodeFailure(Defect.TRUNCATED, "header.correlationId", 0)
        return Response(api_key, api_version, api, failure=failure, cut=cut)
    (correlation_id,) = _INT32.unpack_from(frame)
    unknown = Response(api_key, api_version, api, correlation_id=correlation_id, known=False, cut=cut)
    if api is None:
        return unknown
    if api_key == API_VERSIONS and _is_refusal(frame):
        return _refusal(schemas, api, frame, unknown, spans)
    if api_version not in api.versions:
        return unknown
    reading = _read_as(schemas, api, api_version, frame, cut=cut, spans=spans)
    if api.is_overlay(api_version) and not _is_proven(reading, cut):
        return unknown
    return _response(unknown, api, api_version, reading)


def write_response(
    schemas: Schemas, api: str | int, version: int, correlation_id: int, body: Mapping[str, Any]
) -> bytes:
    """Write a response frame without its length prefix. `api` is a name or a key.

    The response to an unsupported ApiVersions has version 0. Raises EncodeError for an API or
    version that the schemas do not have, and for a value that the version cannot carry.
    """
    found = schemas.api_named(api) if isinstance(api, str) else schemas.api(api)
    if found is None or version not in found.versions:
        raise EncodeError("", f"there is no {api} version {version}")
    header = compile_message(schemas.response_header, found.response_header_version(version))
    content = write(compile_message(found.response, version), body)
    return write(header, {"correlationId": correlation_id}) + content


def _is_refusal(frame: bytes) -> bool:
    end = _INT32.size + _ERROR_CODE.size
    return len(frame) >= end and _ERROR_CODE.unpack_from(frame, _INT32.size)[0] == UNSUPPORTED_VERSION


def _refusal(schemas: Schemas, api: Api, frame: bytes, unknown: Response, spans: Collection[str]) -> Response:
    reading = _read_as(schemas, api, 0, frame, cut=unknown.cut, spans=spans)
    if _is_proven(reading, unknown.cut):
        return _response(unknown, api, 0, reading)
    if unknown.api_version not in api.versions:
        return unknown
    # A broker may have refused in the layout of the request: wrong, but decodable.
    asked = _read_as(schemas, api, unknown.api_version, frame, cut=unknown.cut, spans=spans)
    if asked.is_exact:
        return _response(unknown, api, unknown.api_version, asked)
    return _response(unknown, api, 0, reading) if api.is_released(unknown.api_version) else unknown


def _read_as(
    schemas: Schemas, api: Api, version: int, frame: bytes, *, cut: bool, spans: Collection[str]
) -> Reading:
    header = compile_message(schemas.response_header, api.response_header_version(version))
    return read_frame(frame, header, compile_message(api.response, version), cut, spans)


def _is_proven(reading: Reading, cut: bool) -> bool:
    return reading.is_exact or (cut and reading.failure is None)


def _response(unknown: Response, api: Api, body_version: int, reading: Reading) -> Response:
    return replace(
        unknown,
        header_version=api.response_header_version(body_version) if reading.has_header else None,
        body=reading.body,
        body_version=body_version,
        remarks=reading.remarks,
        failure=reading.failure,
        known=True,
        spans=reading.spans,
    )
