"""Reads and writes request frames, header and body; a header that no release has must be proven.

The header version follows from the API and version (`schema/header_versions.py`). KIP-1313 puts the client
instance ID after the client ID, before the tagged fields: the *plain* layout. A later revision of its
implementation makes it a tagged field of that header: the *tagged* layout. A release that has header 3 states
the layout in its schemas. As long as only the overlay has versions with header 3, a later release may give
the same version numbers another meaning, and a guess must not lead to a finding. A frame of such a version is
read only if it proves one layout and not the other. If it does not, `known` is False, as for a version that
no schema has.

- *A complete frame* must decode to its last byte. In the plain layout it must not also decode to its last
  byte as header 2 with the body of the version before. In the tagged layout it always does so; there the tag
  is the proof, since no release has tagged fields in a header: the ID, 16 bytes that are not all zero, must
  be the only tagged field of the header. A zero ID is not written in that layout, so it proves nothing.
- *A cut frame* has no last byte. It must decode up to the cut. In the plain layout its header must have no
  tagged field, and its ID must not begin with a zero byte, which under header 2 would be the number of tagged
  fields. So a zero ID in a cut frame is not proven, nor is one random ID in 256.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from decoders.codec.failure import DecodeFailure, Defect, EncodeError, Remark
from decoders.codec.program import UNKNOWN_TAGS, Program, compile_message
from decoders.codec.reader import Reader, Reading, Spans, read_frame
from decoders.codec.writer import write
from decoders.protocol import API_VERSIONS, PRODUCE, REQUEST_LEAD
from decoders.schema.header_versions import Layout
from decoders.schema.model import Message
from decoders.schema.registry import Api, Schemas

INSTANCE_ID: Final = "clientInstanceId"
DRAFT_HEADER: Final = 2
"""The header that carries the ID in the withdrawn draft of KIP-1313 (section Rejected Alternatives)."""
_DRAFT_TAG: Final = 0
_ID_BYTES: Final = 16
_FIRST_HEADER: Final = 1
"""The header that ends with the client ID. All later ones begin like it."""
_VERSION_AT: Final = 2
HEADER_BEFORE: Final = 2
"""The request header before the one that KIP-1313 introduces."""
_HEADER_VERSIONS: Final = (1, 2, 3)

UNREADABLE: Final = -1
"""The API key or version of a frame that is too short to have one."""

ZERO_INSTANCE_ID: Final = bytes(_ID_BYTES)
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


def layout_of(header: Program) -> Layout | None:
    """Return the layout of a request header; None if it has no instance ID."""
    if INSTANCE_ID not in header.names:
        return None
    is_tagged = any(field.name == INSTANCE_ID for field in header.tagged.values())
    return Layout.TAGGED if is_tagged else Layout.PLAIN


def instance_id(reading: Reading) -> bytes | None:
    """Return the 16 bytes of the instance ID that was read in a header."""
    text = reading.header.get(INSTANCE_ID)
    return None if text is None else base64.urlsafe_b64decode(f"{text}==")


def draft_instance_id(reading: Reading) -> bytes | None:
    """Return the 16 bytes of tagged field 0 of a header whose schema has no such field; None without it."""
    unknown = reading.header.get(UNKNOWN_TAGS, ()) if reading.has_header else ()
    contents = (base64.b64decode(field["data"]) for field in unknown if field["tag"] == _DRAFT_TAG)
    return next((content for content in contents if len(content) == _ID_BYTES), None)


def read_proven(
    schemas: Schemas, api: Api, version: int, frame: bytes, *, cut: bool, spans: Collection[str]
) -> tuple[Layout, Reading] | None:
    """Read a frame of a version that only the overlay has; None unless exactly one layout is proven."""
    header_version, body = api.request_header_version(version), compile_message(api.request, version)
    readings = {
        layout: read_frame(frame, compile_message(header, header_version), body, cut, spans)
        for layout, header in schemas.request_headers.items()
    }
    proven = [
        (layout, reading)
        for layout, reading in readings.items()
        if (_is_proven_in_part(layout, reading) if cut else _is_proven(layout, reading))
    ]
    if len(proven) != 1:
        return None
    ((layout, reading),) = proven
    if layout is Layout.PLAIN and not cut and _is_of_version_before(schemas, api, version, frame):
        return None
    return layout, reading


def _is_proven(layout: Layout, reading: Reading) -> bool:
    return reading.is_exact and (layout is Layout.PLAIN or _is_only_tag(reading))


def _is_proven_in_part(layout: Layout, reading: Reading) -> bool:
    if reading.failure is not None or not reading.has_header:
        return False
    if layout is Layout.TAGGED:
        return _is_only_tag(reading)
    found = instance_id(reading)
    return UNKNOWN_TAGS not in reading.header and found is not None and not found.startswith(b"\0")


def _is_only_tag(reading: Reading) -> bool:
    # A field of another size than stated has a remark, and so has a repeated tag.
    is_odd = any(remark.path.startswith("header.") for remark in reading.remarks)
    return INSTANCE_ID in reading.header and UNKNOWN_TAGS not in reading.header and not is_odd


def _is_of_version_before(schemas: Schemas, api: Api, version: int, frame: bytes) -> bool:
    header = compile_message(schemas.request_header, HEADER_BEFORE)
    return read_frame(frame, header, compile_message(api.request, version - 1), False, ()).is_exact


def other_header(schemas: Schemas, api: Api, version: int, frame: bytes) -> int | None:
    """Return the only header version with which a whole frame decodes to its last byte.

    Returns None if no version or more than one fits, or if the assigned version fits.
    """
    found = read_with_other_header(schemas, api, version, frame)
    return found[0] if found else None


def read_with_other_header(
    schemas: Schemas, api: Api, version: int, frame: bytes, spans: Collection[str] = ()
) -> tuple[int, Reading] | None:
    """Return the header version that `other_header` finds, and the frame as read with it.

    `spans` are the paths of body fields whose places in the frame are requested.
    """
    body = compile_message(api.request, version)
    readings = {
        candidate: read_frame(frame, compile_message(schemas.request_header, candidate), body, False, spans)
        for candidate in _HEADER_VERSIONS
    }
    fitting = [(number, each) for number, each in readings.items() if each.is_exact and not each.remarks]
    is_only = len(fitting) == 1 and fitting[0][0] != api.request_header_version(version)
    return fitting[0] if is_only else None


def lasting_failure(
    schemas: Schemas, api: Api, version: int, frame: bytes, true_length: int
) -> DecodeFailure | None:
    """Return what is wrong in a header of a version that no schema has, whatever later schemas may say.

    No version is negative, which a header shows that is sound otherwise. And the client ID of ApiVersions has
    a length of two bytes in all versions, since older brokers must be able to read it. `true_length` is the
    length of the frame before its tail was cut.
    """
    reading = read_frame(frame, compile_message(schemas.request_header, _FIRST_HEADER), None, True, ())
    if version < 0 and reading.has_header:
        return DecodeFailure(Defect.NEGATIVE_VERSION, "header.requestApiVersion", _VERSION_AT)
    length = int.from_bytes(frame[REQUEST_LEAD : REQUEST_LEAD + 2], signed=True)
    if api.key == API_VERSIONS and REQUEST_LEAD + 2 + max(length, 0) > true_length:
        return DecodeFailure(Defect.TRUNCATED, "header.clientId", REQUEST_LEAD)
    return None


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
