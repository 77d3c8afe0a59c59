"""Removes record payloads and secrets from a frame before it is stored or judged.

The feeder does so before it publishes and `check` before it judges, so both judge the same bytes. A frame is

- *cut* before the first byte of the first record payload, if nothing is wrong with it, and after 256 KiB. Its
  record keeps the true length, and READ_WHOLE says that nothing is wrong behind the cut. If anything is, the
  payloads are blanked instead, so that it is found.
- *blanked*: the content of a guarded field is overwritten with zero bytes. The frame still decodes, and only
  that field has changed.
- *distrusted* where a guarded field cannot be located. What is kept depends on what is known:

  - A frame of a guarded API that cannot be decoded keeps header and structure: the lengths, counts and tags
    up to the failure. So it fails in the same way and at the same place as before. All contents are blanked,
    since a damaged length or a wrong API key shows one field as another.
  - A frame with a secret and with bytes behind its body keeps header, structure and the numbers before the
    first length: one that is too small makes a part of the secret a number.
  - A request whose API or version no schema has keeps only the key and version that prove it: the rest may be
    a password. It keeps the header if earlier releases had the version or it is negative. A response to such
    a request, or without a matched one, keeps its correlation ID.
  - ApiVersions is the exception: its requests can be read at any version (KIP-511), and so can the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from decoders.codec.failure import DecodeFailure, Oddity
from decoders.codec.program import compile_message
from decoders.codec.reader import Reader
from decoders.codec.request import Request, other_header, read_request, read_with_other_header
from decoders.codec.response import Response, read_response
from decoders.frame.privacy import NO_GUARD, FieldGuard, guards_of
from decoders.frame.record import Flag, Kind, Pairing, Record
from decoders.protocol import API_LEAD, API_VERSIONS, REQUEST_LEAD, RESPONSE_LEAD
from decoders.schema.model import VersionRange
from decoders.schema.registry import Api, Schemas

MAX_KEPT = 256 * 1024
"""The most bytes of a frame that are kept."""
_LONGEST_LENGTH = 5
"""The most bytes of a length: an unsigned varint of 32 bits."""
_UNREADABLE = tuple(map(bytes.fromhex, ("", "7fffffff", "ffffffffff", "ffffffff0f", "ffffffff07", "ffff01")))
"""Lengths that many fields cannot have: null, too long, negative, without an end."""

_ANY_VERSION = VersionRange(-(1 << 15), (1 << 15) - 1)


class _Read(Protocol):
    """Reads a whole frame and notes the spans of fields, by default the guarded ones."""

    def __call__(self, frame: bytes, spans: tuple[str, ...] = ...) -> Request | Response: ...


def cut(schemas: Schemas, record: Record) -> Record:
    """Return the record with only those bytes of its frame that may be kept."""
    kept = _kept(schemas, record, cuts=True)[:MAX_KEPT]
    if kept is record.frame:
        return record
    flags = record.flags
    if len(kept) < len(record.frame) and not record.is_cut and _is_right(schemas, record):
        flags |= Flag.READ_WHOLE
    return msgspec.structs.replace(record, frame=kept, flags=flags)


def _is_right(schemas: Schemas, record: Record) -> bool:
    """Whether nothing is wrong with a frame that was captured whole."""
    found: Request | Response
    if record.kind is Kind.REQUEST:
        found = read_request(schemas, record.frame)
    elif record.pairing is Pairing.MATCHED:
        found = read_response(schemas, record.frame, record.paired_api_key, record.paired_api_version)
    else:
        return False
    return found.known and found.failure is None and not found.remarks


def blank(schemas: Schemas, record: Record) -> Record:
    """Return the record with the bytes blanked that `cut` removes, so that its frame keeps its length.

    A frame whose last byte must prove its version can be cut again with equal results only in this form.
    """
    kept = _kept(schemas, record, cuts=False)
    return record if kept is record.frame else msgspec.structs.replace(record, frame=kept)


def classified_versions(api: Api) -> VersionRange:
    """Return the versions of an API whose fields are classified."""
    return _ANY_VERSION if api.key == API_VERSIONS else api.versions


def _kept(schemas: Schemas, record: Record, *, cuts: bool) -> bytes:
    match record.kind:
        case Kind.REQUEST:
            return _kept_of_request(schemas, record, cuts=cuts)
        case Kind.RESPONSE:
            return _kept_of_response(schemas, record, cuts=cuts)
        case Kind.SASL_TOKEN:
            return bytes(len(record.frame))
    return record.frame


def _guard_of(api: Api, guards: Mapping[int, FieldGuard], *, cuts: bool) -> FieldGuard:
    """Return the guard of a message of an API; without `cuts`, payloads are blanked as well."""
    guard = guards.get(api.key, NO_GUARD)
    return guard if cuts else guard._replace(cut=(), blanked=guard.cut + guard.blanked)


def _kept_of_request(schemas: Schemas, record: Record, *, cuts: bool) -> bytes:
    frame = record.frame
    api = schemas.api(int.from_bytes(frame[:2], signed=True))
    version = int.from_bytes(frame[2:4], signed=True)
    if api is None or version not in classified_versions(api):
        return frame[: _header_end(schemas, api, version, frame)]
    guard = _guard_of(api, guards_of(schemas).requests, cuts=cuts)
    spans = guard.cut + guard.blanked
    if guard == NO_GUARD:
        return frame

    def read(frame: bytes, spans: tuple[str, ...] = spans) -> Request:
        return read_request(schemas, frame, spans=spans)

    found = read(frame)
    is_exact = found.known and found.failure is None and not found.remarks
    if not is_exact and not record.is_cut and found.api_version in api.versions:
        kept = _kept_with_other_header(schemas, api, frame, found, spans)
        if kept is not None:
            return kept

    def proven(frame: bytes) -> int | None:
        return other_header(schemas, api, found.api_version, frame)

    return _guarded(guard, read, frame, found, REQUEST_LEAD, proven)


def _header_end(schemas: Schemas, api: Api | None, version: int, frame: bytes) -> int:
    """Return how many bytes of a request that no schema has are its header, as far as that can be read."""
    if api is None or not (api.shows_header(version) or version < 0):
        return API_LEAD
    reader = Reader(frame)
    try:
        reader.fill(compile_message(schemas.request_header, api.request_header_version(version)), {})
    except DecodeFailure:
        return API_LEAD
    return reader.position


def _kept_with_other_header(
    schemas: Schemas, api: Api, frame: bytes, found: Request, spans: tuple[str, ...]
) -> bytes | None:
    """Blank a request that decodes only with another header than the assigned one, by that header.

    The blanked frame still proves that it has the wrong header. Returns None if no other header fits, or if
    the blanked frame does not read as before.
    """
    other = read_with_other_header(schemas, api, found.api_version, frame, spans)
    if other is None:
        return None
    places = [place for path in spans for place in (*other[1].spans[path], *found.spans.get(path, ()))]
    kept = _blanked(frame, places)
    again = read_with_other_header(schemas, api, found.api_version, kept)
    still = read_request(schemas, kept)
    is_same = (still.known, str(still.failure), still.remarks) == (
        found.known,
        str(found.failure),
        found.remarks,
    )
    return kept if again is not None and again[0] == other[0] and is_same else None


def _kept_of_response(schemas: Schemas, record: Record, *, cuts: bool) -> bytes:
    frame = record.frame
    api = schemas.api(record.paired_api_key) if record.pairing is Pairing.MATCHED else None
    if api is None or record.paired_api_version not in classified_versions(api):
        return frame[:RESPONSE_LEAD]
    guard = _guard_of(api, guards_of(schemas).responses, cuts=cuts)
    key, version, spans = api.key, record.paired_api_version, guard.cut + guard.blanked
    if not spans:
        return frame

    def read(frame: bytes, spans: tuple[str, ...] = spans) -> Response:
        return read_response(schemas, frame, key, version, spans=spans)

    return _guarded(guard, read, frame, read(frame), RESPONSE_LEAD, lambda _: None)


def _guarded(  # noqa: PLR0917
    guard: FieldGuard,
    read: _Read,
    frame: bytes,
    found: Request | Response,
    lead: int,
    proven: Callable[[bytes], int | None],
) -> bytes:
    """Cut and blank a frame. `found` is what `read` returns for the original frame.

    `proven` returns which other header a frame that fails has; once blanked, it must not prove another one.
    """
    if not found.known:
        return frame[:lead]
    if found.failure is not None:
        structure = _blanked(frame, _spans(read, frame, guard.contents))
        frame = next(
            (
                each
                for header in dict.fromkeys((proven(frame), None))
                for each in _failures(structure, found.failure)
                if _fails(read, each, found.failure) and proven(each) == header
            ),
            frame[:lead],
        )
    payloads = [span for path in guard.cut for span in found.spans.get(path, ()) if span[0] < span[1]]
    blanked = [span for path in guard.blanked for span in found.spans.get(path, ())]
    if found.failure is not None or found.remarks:
        # What is wrong may be behind the payloads.
        blanked += payloads
    else:
        frame = frame[: min((begin for begin, _ in payloads), default=len(frame))]
    trailing = [
        (remark.offset, len(frame)) for remark in found.remarks if remark.oddity is Oddity.TRAILING_BYTES
    ]
    if trailing and guard.hidden:
        # A length may be too small, so that a part of what it counts reads as the next fields.
        blanked += _spans(read, frame, guard.movable)
    return _blanked(frame, blanked + trailing)


def _spans(read: _Read, frame: bytes, paths: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the spans of all fields at some paths."""
    return [span for spans in read(frame, paths).spans.values() for span in spans]


def _failures(frame: bytes, failure: DecodeFailure) -> Iterator[bytes]:
    """Yield the frame, overwritten from a failure on: by a length that may cause it, and a filling.

    The lengths are those of _UNREADABLE, then the frame's own: a guarded field may begin at the failure, with
    only its end missing.
    """
    own = (frame[failure.offset :][:kept] for kept in range(1, _LONGEST_LENGTH + 1))
    for length in (*_UNREADABLE, *own):
        for fill in (b"\0", b"\xff"):
            yield (frame[: failure.offset] + length).ljust(len(frame), fill)[: len(frame)]


def _fails(read: _Read, frame: bytes, failure: DecodeFailure) -> bool:
    found, same = read(frame).failure, (failure.reason, failure.path, failure.offset)
    return found is not None and (found.reason, found.path, found.offset) == same


def _blanked(frame: bytes, spans: list[tuple[int, int]]) -> bytes:
    blanked = bytearray(frame)
    for begin, end in spans:
        blanked[begin:end] = bytes(max(0, min(end, len(frame)) - begin))
    return bytes(blanked)
