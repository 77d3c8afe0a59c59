"""A whole request frame: header and body, read and written, and whether it expects a response.

The header version follows from the API and version (`schema/header_versions.py`). A version that only the
KIP-1313 overlay has is believed only if the frame proves it (`codec/request_header.py`). If it does not,
`known` is False, as for a version that no schema has.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Defect, EncodeError, Remark
from decoders.codec.program import Program, compile_message
from decoders.codec.reader import Reader, Reading, Spans, read_frame
from decoders.codec.request_header import (
    DRAFT_HEADER,
    INSTANCE_ID,
    draft_instance_id,
    instance_id,
    layout_of,
    read_proven,
)
from decoders.codec.writer import write
from decoders.protocol import API_VERSIONS, PRODUCE
from decoders.schema.header_versions import Layout
from decoders.schema.model import Message
from decoders.schema.registry import Api, Schemas

UNREADABLE: Final = -1
"""The API key or version of a frame that is too short to have one."""

ZERO_INSTANCE_ID: Final = bytes(16)
"""The instance ID of a client that has none."""

_INT16: Final = struct.Struct(">h")
_LEAD: Final = struct.Struct(">hhi")
"""The beginning of every request header: API key, API version, correlation ID."""
_API_AND_VERSION: Final = struct.Struct(">hh")


@dataclass(frozen=True, slots=True)
class Request:
    """The content of a request frame.

    `known` is False if the schemas do not have its API or version, or the frame does not prove it. Then only
    the API, version and correlation ID are set, and the header if the API `shows_header` at that version.
    `header_version` is None unless the whole header was read; only if it is a number does a
    `client_id` of None mean null. `client_instance_id` is None if the header has none, and 16 zero bytes if
    it is zero; `layout` says where the header has it, and is None for a header that cannot have it.
    `draft_instance_id` are 16 bytes in tagged field 0 of header 2. `body` is None unless it was read whole.
    `failure` says why a known frame could not be read; the end of a `cut` frame is not a failure.
    """

    api_key: int
    api_version: int
    api: Api | None = None
    header_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    client_instance_id: bytes | None = None
    layout: Layout | None = None
    draft_instance_id: bytes | None = None
    body: dict[str, Any] | None = None
    remarks: tuple[Remark, ...] = ()
    failure: DecodeFailure | None = None
    known: bool = True
    cut: bool = False
    spans: Spans = field(default_factory=dict)


def read_request(
    schemas: Schemas, frame: bytes, *, cut: bool = False, spans: Collection[str] = ()
) -> Request:
    """Read a request frame without its length prefix. Raises nothing, whatever the bytes.

    `cut` says that the frame's tail is missing. `spans` are the paths of body fields whose places in the
    frame are requested (`topicData.partitionData.records`).
    """
    if len(frame) < _LEAD.size:
        return _too_short(schemas, frame, cut)
    key, version, correlation_id = _LEAD.unpack_from(frame)
    api = schemas.api(key)
    unknown = Request(key, version, api, correlation_id=correlation_id, known=False, cut=cut)
    if api is None:
        return unknown
    if version not in api.versions:
        return _header_only(schemas, api, frame, unknown) if api.shows_header(version) else unknown
    if api.is_overlay(version):
        proven = read_proven(schemas, api, version, frame, cut=cut, spans=spans)
        return _request(unknown, *proven, known=True) if proven else unknown
    header = compile_message(schemas.request_header, api.request_header_version(version))
    reading = read_frame(frame, header, compile_message(api.request, version), cut, spans)
    return _request(unknown, layout_of(header), reading, known=True)


def write_request(  # noqa: PLR0917 - the arguments come in the order of the wire
    schemas: Schemas,
    api: str | int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    body: Mapping[str, Any],
    client_instance_id: bytes | None = None,
    layout: Layout | None = None,
) -> bytes:
    """Write a request frame without its length prefix. `api` is a name or a key.

    `layout` is one that the schemas have for the header, by default that of their `request_header`.
    Raises EncodeError for an API or version that the schemas do not have (ApiVersions may have any
    version) and for a value that the version cannot carry, an instance ID before header 3 among them.
    """
    found = schemas.api_named(api) if isinstance(api, str) else schemas.api(api)
    if found is None or (version not in found.versions and found.key != API_VERSIONS):
        raise EncodeError("", f"there is no {api} version {version}")
    header: dict[str, Any] = {
        "requestApiKey": found.key,
        "requestApiVersion": version,
        "correlationId": correlation_id,
        "clientId": client_id,
    }
    if client_instance_id is not None:
        header[INSTANCE_ID] = base64.urlsafe_b64encode(client_instance_id).decode().rstrip("=")
    message = schemas.request_headers.get(layout) if layout else schemas.request_header
    if message is None:
        raise EncodeError("header", f"Kafka {schemas.release} has no {layout} layout")
    header_program = compile_message(message, found.request_header_version(version))
    return write(header_program, header) + write(compile_message(found.request, version), body)


def _too_short(schemas: Schemas, frame: bytes, cut: bool) -> Request:
    key = _INT16.unpack_from(frame)[0] if len(frame) >= 2 else UNREADABLE
    version = _INT16.unpack_from(frame, 2)[0] if len(frame) >= 4 else UNREADABLE
    api = schemas.api(key) if len(frame) >= 2 else None
    if len(frame) >= 4 and (api is None or version not in api.versions or api.is_overlay(version)):
        return Request(key, version, api, known=False, cut=cut)
    names = ("requestApiKey", "requestApiVersion", "correlationId")
    missing = min(len(frame) // 2, 2)
    failure = DecodeFailure(Defect.TRUNCATED, f"header.{names[missing]}", 2 * missing)
    return Request(key, version, api, failure=None if cut else failure, cut=cut)


def _header_only(schemas: Schemas, api: Api, frame: bytes, unknown: Request) -> Request:
    header = compile_message(schemas.request_header, api.request_header_version(unknown.api_version))
    # A failure is not reported: in its own release the version may have another header.
    reading = read_frame(frame, header, None, cut=True, spans=())
    return _request(unknown, layout_of(header), reading, known=False) if reading.has_header else unknown


def _request(unknown: Request, layout: Layout | None, reading: Reading, *, known: bool) -> Request:
    assert unknown.api is not None
    version = unknown.api.request_header_version(unknown.api_version)
    found = instance_id(reading)
    if layout is Layout.TAGGED and reading.has_header and found is None:
        found = ZERO_INSTANCE_ID
    return replace(
        unknown,
        header_version=version if reading.has_header else None,
        client_id=reading.header.get("clientId"),
        client_instance_id=found,
        layout=layout if reading.has_header else None,
        draft_instance_id=draft_instance_id(reading) if version == DRAFT_HEADER else None,
        body=reading.body,
        remarks=reading.remarks if known else (),
        failure=reading.failure if known else None,
        known=known,
        spans=reading.spans,
    )


def expects_response(schemas: Schemas, frame: bytes) -> bool | None:
    """Return whether a request frame, whole or cut, expects a response: all do, except a Produce with acks 0.

    None if that is unknown: the frame has no API key, or is a Produce that cannot be read up to its acks. A
    Produce is read no further than that, unless only the KIP-1313 overlay has its version: that frame is read
    whole, to prove its layout.
    """
    if len(frame) < _API_AND_VERSION.size:
        return None
    key, version = _API_AND_VERSION.unpack_from(frame)
    if key != PRODUCE:
        return True
    api = schemas.api(key)
    if api is None or version not in api.versions:
        return None
    header = _proven_header(schemas, frame) if api.is_overlay(version) else schemas.request_header
    acks = _acks(header, api, version, frame) if header else None
    return None if acks is None else acks != 0


def _proven_header(schemas: Schemas, frame: bytes) -> Message | None:
    readings = (read_request(schemas, frame, cut=cut) for cut in (False, True))
    layout = next((reading.layout for reading in readings if reading.known), None)
    return schemas.request_headers[layout] if layout else None


def _acks(header: Message, api: Api, version: int, frame: bytes) -> int | None:
    reader = Reader(frame)
    try:
        reader.fill(compile_message(header, api.request_header_version(version)), {})
        acks: int | None = reader.fill(_up_to_acks(api, version), {}).get("acks")
    except DecodeFailure:
        return None
    return acks


@functools.cache
def _up_to_acks(api: Api, version: int) -> Program:
    program = compile_message(api.request, version)
    names = [instruction.name for instruction in program.fields]
    # A draft's schemas may lack the field.
    leading = program.fields[: names.index("acks") + 1] if "acks" in names else ()
    return replace(program, fields=leading, flexible=False)
