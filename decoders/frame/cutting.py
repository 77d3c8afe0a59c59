"""Removes record payloads and secrets from a frame before it is stored or judged.

The feeder does so before it publishes and `check` before it judges, so both judge the same bytes. Three
things happen to a frame:

- *cut*: it ends before the first byte of the first record payload, or after 256 KiB. Its record keeps
  the true length, and nothing after the cut can be judged.
- *blanked*: the content of a field is overwritten with zero bytes. The frame still decodes, and only that
  field has changed.
- *distrusted*: if a guarded field cannot be located, nothing after that place is kept. A frame of a guarded
  API that cannot be decoded is blanked from the failure on, so that it still fails in the same way and at the
  same place. If no schema has its API or version, nobody has classified its fields, and only the beginning
  that all headers share is kept; likewise of a response that is not matched to a request. ApiVersions is the
  exception: its requests can be read at any version (KIP-511), and so can the responses to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from decoders.codec.failure import DecodeFailure, Oddity
from decoders.codec.other_header import read_with_other_header
from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.privacy import NO_GUARD, Guard, guards_of
from decoders.frame.record import Kind, Pairing, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.model import VersionRange
from decoders.schema.registry import Api, Schemas

MAX_KEPT = 256 * 1024
"""The most bytes of a frame that are kept."""
_REQUEST_LEAD = 8
"""API key, API version and correlation ID."""
_RESPONSE_LEAD = 4
"""The correlation ID."""
_LONGEST_LENGTH = 5
"""The most bytes of a length: an unsigned varint of 32 bits."""

_ANY_VERSION = VersionRange(-(1 << 15), (1 << 15) - 1)

_Read = Callable[[bytes], Request | Response]


def cut(schemas: Schemas, record: Record) -> Record:
    """Return the record with only those bytes of its frame that may be kept."""
    kept = _kept(schemas, record)[:MAX_KEPT]
    return record if kept is record.frame else dataclasses.replace(record, frame=kept)


def blank(schemas: Schemas, record: Record) -> Record:
    """Return the record with the bytes that `cut` removes blanked, so that its frame keeps its length.

    If the last byte of a frame must prove its version, only such a frame can be cut again with equal results.
    """
    kept = _kept(schemas, record, _blanking)
    return record if kept is record.frame else dataclasses.replace(record, frame=kept)


def classified_versions(api: Api) -> VersionRange:
    """Return the versions of an API whose fields are classified."""
    return _ANY_VERSION if api.key == API_VERSIONS else api.versions


def _blanking(guard: Guard) -> Guard:
    return Guard(blanked=guard.cut + guard.blanked)


def _as_it_is(guard: Guard) -> Guard:
    return guard


def _kept(schemas: Schemas, record: Record, change: Callable[[Guard], Guard] = _as_it_is) -> bytes:
    match record.kind:
        case Kind.REQUEST:
            return _kept_of_request(schemas, record, change)
        case Kind.RESPONSE:
            return _kept_of_response(schemas, record, change)
        case Kind.SASL_TOKEN:
            return bytes(len(record.frame))
    return record.frame


def _kept_of_request(schemas: Schemas, record: Record, change: Callable[[Guard], Guard]) -> bytes:
    frame = record.frame
    api = schemas.api(int.from_bytes(frame[:2], signed=True))
    if api is None or int.from_bytes(frame[2:4], signed=True) not in classified_versions(api):
        return frame[:_REQUEST_LEAD]
    guard = change(guards_of(schemas).requests.get(api.key, NO_GUARD))
    spans = guard.cut + guard.blanked
    if not spans:
        return frame

    def read(frame: bytes) -> Request:
        return read_request(schemas, frame, spans=spans)

    found = read(frame)
    is_exact = found.known and found.failure is None and not found.remarks
    if not is_exact and not record.is_cut and found.api_version in api.versions:
        kept = _kept_with_other_header(schemas, api, frame, found, spans)
        if kept is not None:
            return kept
    return _guarded(guard, read, frame, found, _REQUEST_LEAD)


def _kept_with_other_header(
    schemas: Schemas, api: Api, frame: bytes, found: Request, spans: tuple[str, ...]
) -> bytes | None:
    """Blank a request that decodes only with another header than assigned, where that header says.

    So the frame still proves that it has the wrong header. Returns None if no other header fits, or if the
    blanked frame does not read as it did.
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


def _kept_of_response(schemas: Schemas, record: Record, change: Callable[[Guard], Guard]) -> bytes:
    frame, api = record.frame, _paired_api(schemas, record)
    if api is None or record.paired_api_version not in classified_versions(api):
        return frame[:_RESPONSE_LEAD]
    guard = change(guards_of(schemas).responses.get(api.key, NO_GUARD))
    key, version, spans = api.key, record.paired_api_version, guard.cut + guard.blanked
    if not spans:
        return frame

    def read(frame: bytes) -> Response:
        return read_response(schemas, frame, key, version, spans=spans)

    return _guarded(guard, read, frame, read(frame), _RESPONSE_LEAD)


def _paired_api(schemas: Schemas, record: Record) -> Api | None:
    return schemas.api(record.paired_api_key) if record.pairing is Pairing.MATCHED else None


def _guarded(guard: Guard, read: _Read, frame: bytes, found: Request | Response, lead: int) -> bytes:
    """Cut and blank a frame. `read` reads it as a whole one and notes the spans of its guarded fields.

    `found` is what it reads of the frame as it is.
    """
    if not found.known:
        return frame[:lead]
    if found.failure is not None:
        frame = _with_same_failure(read, frame, found.failure)
    payloads = [begin for path in guard.cut for begin, end in found.spans.get(path, ()) if begin < end]
    frame = frame[: min(payloads, default=len(frame))]
    blanked = [span for path in guard.blanked for span in found.spans.get(path, ())]
    behind = [
        (remark.offset, len(frame)) for remark in found.remarks if remark.oddity is Oddity.TRAILING_BYTES
    ]
    return _blanked(frame, blanked + behind)


def _with_same_failure(read: _Read, frame: bytes, failure: DecodeFailure) -> bytes:
    """Blank everything after a failure, except the bytes that cause it: a length, at most.

    A guarded field may begin at the failure, with only its end missing.
    """
    for kept in range(failure.offset, failure.offset + _LONGEST_LENGTH + 1):
        candidate = frame[:kept].ljust(len(frame), b"\0")
        again = read(candidate).failure
        if again is not None and _same(again, failure):
            return candidate
    return frame[: failure.offset]


def _same(left: DecodeFailure, right: DecodeFailure) -> bool:
    return (left.reason, left.path, left.offset) == (right.reason, right.path, right.offset)


def _blanked(frame: bytes, spans: list[tuple[int, int]]) -> bytes:
    blanked = bytearray(frame)
    for begin, end in spans:
        blanked[begin:end] = bytes(max(0, min(end, len(frame)) - begin))
    return bytes(blanked)
