"""The header that a request frame proves: the layout of header 3, or another version than the assigned one.

KIP-1313 puts the client instance ID after the client ID, before the tagged fields: the *plain* layout. A
later revision of its implementation makes it a tagged field of that header: the *tagged* layout. A release
that has header 3 states the layout in its schemas. As long as only the overlay has versions with header 3, a
later release may give the same version numbers another meaning, and a guess must not lead to a finding.
`read_proven` reads such a frame only if it proves one layout and not the other:

- *A complete frame* must decode to its last byte. In the plain layout it must not also decode to its last
  byte as header 2 with the body of the version before. In the tagged layout it always does so; there the tag
  is the proof, since no release has tagged fields in a header: the ID, 16 bytes that are not all zero, must
  be the only tagged field of the header. A zero ID is not written in that layout, so it proves nothing.
- *A cut frame* has no last byte. It must decode up to the cut. In the plain layout its header must have no
  tagged field, and its ID must not begin with a zero byte, which under header 2 would be the number of tagged
  fields. So a zero ID in a cut frame is not proven, nor is one random ID in 256.

`other_header` finds requests with a wrong header: they decode to the last byte with exactly one header
version, and that is not the assigned one. `lasting_failure` finds what is wrong in a header of a version that
no schema has.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Final

from decoders.codec.failure import DecodeFailure, Defect, Remark
from decoders.codec.program import UNKNOWN_TAGS, Program, compile_message
from decoders.codec.reader import Reading, read_frame
from decoders.protocol import API_VERSIONS, REQUEST_LEAD
from decoders.schema.header_versions import Layout
from decoders.schema.registry import Api, Schemas

INSTANCE_ID: Final = "clientInstanceId"
DRAFT_HEADER: Final = 2
"""The header that carries the ID in the withdrawn draft of KIP-1313 (section Rejected Alternatives)."""
_DRAFT_TAG: Final = 0
_ID_BYTES: Final = 16
_FIRST_HEADER: Final = 1
"""The header that ends with the client ID. All later ones begin like it."""
_VERSION_AT: Final = 2
_HEADER_BEFORE: Final = 2
_HEADER_VERSIONS: Final = (1, 2, 3)


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
    is_odd = any(_is_of_header(remark) for remark in reading.remarks)
    return INSTANCE_ID in reading.header and UNKNOWN_TAGS not in reading.header and not is_odd


def _is_of_header(remark: Remark) -> bool:
    return remark.path.startswith("header.")


def _is_of_version_before(schemas: Schemas, api: Api, version: int, frame: bytes) -> bool:
    header = compile_message(schemas.request_header, _HEADER_BEFORE)
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
