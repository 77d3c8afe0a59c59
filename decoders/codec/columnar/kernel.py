"""Compiled: reads a column of frames, each as `codec/request.py` or `codec/response.py` reads it.

`read_frames` is the entry point. It comes last, because it has a signature, so numba compiles it where it is
defined, with everything that it calls.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import from_dtype, types

from decoders.codec.columnar.frames import (
    FIRST_LEAD_PATH,
    HEAD,
    NO_FAILURE,
    TAGGED_LAYOUT,
    TRUNCATED,
)
from decoders.codec.columnar.tape import (
    ABOVE,
    BELOW,
    FOUND,
    HEADERS,
    NOWHERE,
    REFUSAL,
    REMARKS,
    REQUESTS,
    RESPONSES,
    RIVALS,
    TAGGED_REQUESTS,
    FrameSpan,
    Machine,
    clear,
    clear_failure,
    discard,
    entry_of,
    fail,
)
from decoders.codec.columnar.walk import read_frame
from decoders.compilation import compiled, inlined, outlined
from decoders.memory import CACHE_LINE, FRAMES_AHEAD, int16, int32, prefetch
from decoders.protocol import API_VERSIONS, REQUEST_LEAD, RESPONSE_LEAD, UNSUPPORTED_VERSION

_FLAGS: Final = types.Array(types.bool_, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int16, 1, "C", readonly=True)
_HEADS: Final = from_dtype(HEAD)[::1]
_ROWS: Final = types.int64[:, ::1]


@inlined
def _read_request(
    machine: Machine, rival_machine: Machine, frame: FrameSpan, entries: Any, places: Any
) -> None:
    """Read a request. `rival_machine` has the head for readings that are only compared."""
    if frame.end - frame.begin < REQUEST_LEAD:
        _read_short_request(machine, frame, entries)
        return
    head = machine.head
    head.api_key = int16(machine.data, frame.begin)
    head.api_version = int16(machine.data, frame.begin + 2)
    head.correlation_id = int32(machine.data, frame.begin + 4)
    head.has_correlation_id = True
    entry = entry_of(entries, REQUESTS, head.api_key, head.api_version)
    if entry == NOWHERE:
        head.known = False
        _read_header(machine, frame, entries, places)
        return
    if entry_of(entries, RIVALS, head.api_key, head.api_version) != NOWHERE:
        _read_overlay_request(machine, rival_machine, frame, entries)
    else:
        read_frame(machine, frame, REQUEST_LEAD, entry)


@outlined
def _read_short_request(machine: Machine, frame: FrameSpan, entries: Any) -> None:
    """Read a request that ends before its correlation ID does."""
    head, size = machine.head, frame.end - frame.begin
    head.api_key = int16(machine.data, frame.begin) if size >= 2 else -1
    head.api_version = int16(machine.data, frame.begin + 2) if size >= 4 else -1
    if size >= 4:
        entry = entry_of(entries, REQUESTS, head.api_key, head.api_version)
        rival = entry_of(entries, RIVALS, head.api_key, head.api_version)
        head.known = entry != NOWHERE and rival == NOWHERE
    if head.known and not frame.is_cut:
        missing = min(size // 2, 2)
        fail(machine, frame, TRUNCATED, FIRST_LEAD_PATH + missing, frame.begin + 2 * missing)


@outlined
def _read_header(machine: Machine, frame: FrameSpan, entries: Any, places: Any) -> None:
    """Read the header of a request whose version the schemas do not have, if its API shows it."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    entry = entry_of(entries, HEADERS, head.api_key, head.api_version)
    if entry == NOWHERE and head.api_key == API_VERSIONS:
        entry = places[BELOW] if head.api_version < 0 else places[ABOVE]
    if entry == NOWHERE:
        return
    read_frame(machine, frame, REQUEST_LEAD, entry)
    if head.header_version < 0:
        discard(machine, found, remarks)
    machine.counts[REMARKS] = remarks
    head.has_body = False
    clear_failure(head)


@outlined
def _read_overlay_request(machine: Machine, rival_machine: Machine, frame: FrameSpan, entries: Any) -> None:
    """Read a request of a version that only the overlay has, if the frame proves exactly one layout."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    tagged = entry_of(entries, TAGGED_REQUESTS, head.api_key, head.api_version)
    is_tagged = _is_proven(machine, frame, read_frame(machine, frame, REQUEST_LEAD, tagged))
    discard(machine, found, remarks)
    plain = entry_of(entries, REQUESTS, head.api_key, head.api_version)
    is_plain = _is_proven(machine, frame, read_frame(machine, frame, REQUEST_LEAD, plain))
    if is_plain and not frame.is_cut:
        kept, odd = machine.counts[FOUND], machine.counts[REMARKS]
        rival = entry_of(entries, RIVALS, head.api_key, head.api_version)
        is_ambiguous = read_frame(rival_machine, frame, REQUEST_LEAD, rival)
        machine.counts[FOUND] = kept
        machine.counts[REMARKS] = odd
    else:
        is_ambiguous = False
    if is_plain and not is_tagged and not is_ambiguous:
        return
    discard(machine, found, remarks)
    if is_tagged and not is_plain:
        read_frame(machine, frame, REQUEST_LEAD, tagged)
    else:
        head.known = False


@inlined
def _is_proven(machine: Machine, frame: FrameSpan, is_exact: bool) -> bool:
    """Return whether a reading proves its layout (`codec/request.py`), apart from any rival."""
    head = machine.head
    instance_id = head.client_instance_id_begin
    if head.layout == TAGGED_LAYOUT and (
        instance_id < 0 or head.has_unknown_header_tags or head.has_odd_header
    ):
        return False
    if not frame.is_cut:
        return is_exact
    if head.failure_reason != NO_FAILURE or head.header_version < 0 or instance_id < 0:
        return False
    is_lead_zero = machine.data[np.uint64(instance_id)] == 0
    return head.layout == TAGGED_LAYOUT or not (head.has_unknown_header_tags or is_lead_zero)


@inlined
def _read_response(machine: Machine, frame: FrameSpan, entries: Any, places: Any) -> None:
    """Read a response whose API key and version are already in the head."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    if frame.end - frame.begin < RESPONSE_LEAD:
        if not frame.is_cut:
            fail(machine, frame, TRUNCATED, FIRST_LEAD_PATH + 2, frame.begin)
        return
    head.correlation_id = int32(machine.data, frame.begin)
    head.has_correlation_id = True
    entry = entry_of(entries, RESPONSES, head.api_key, head.api_version)
    is_overlay = entry_of(entries, RIVALS, head.api_key, head.api_version) != NOWHERE
    if places[REFUSAL] != NOWHERE and _is_refusal(machine, frame):
        _read_refusal(machine, frame, places[REFUSAL], entry, entry != NOWHERE and not is_overlay)
    elif entry == NOWHERE:
        head.known = False
    else:
        is_exact = _read_version(machine, frame, entry, head.api_version)
        is_whole = is_exact or (frame.is_cut and head.failure_reason == NO_FAILURE)
        if is_overlay and not is_whole:
            head.known = False
            discard(machine, found, remarks)


@inlined
def _read_version(machine: Machine, frame: FrameSpan, entry: Any, version: int) -> bool:
    """Read a response from the first row of its version on; return whether to the last byte."""
    is_exact = read_frame(machine, frame, RESPONSE_LEAD, entry)
    machine.head.body_version = version
    return is_exact


@inlined
def _is_refusal(machine: Machine, frame: FrameSpan) -> bool:
    return (
        machine.head.api_key == API_VERSIONS
        and frame.end - frame.begin >= 6
        and int16(machine.data, frame.begin + 4) == UNSUPPORTED_VERSION
    )


@outlined
def _read_refusal(machine: Machine, frame: FrameSpan, refusal: Any, entry: Any, is_released: bool) -> None:
    """Read an ApiVersions response with error 35, most often in the layout of version 0.

    `refusal` is the first row of version 0, `entry` that of the version that was asked for, or NOWHERE.
    """
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    if _read_version(machine, frame, refusal, 0) or (frame.is_cut and head.failure_reason == NO_FAILURE):
        return
    discard(machine, found, remarks)
    if entry != NOWHERE and _read_version(machine, frame, entry, head.api_version):
        return
    discard(machine, found, remarks)
    if is_released:
        _read_version(machine, frame, refusal, 0)
    else:
        head.known = False


@compiled(
    types.int64(
        types.Array(types.int32, 1, "C", readonly=True),
        types.Array(types.int32, 3, "C", readonly=True),
        types.Array(types.int32, 1, "C", readonly=True),
        types.Array(types.uint8, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.int32, 1, "C", readonly=True),
        _FLAGS,
        _FLAGS,
        _NUMBERS,
        _NUMBERS,
        types.int64,
        _HEADS,
        _HEADS,
        _ROWS,
        _ROWS,
        types.int64[::1],
        types.int64[::1],
        _ROWS,
    )
)
def read_frames(  # noqa: PLR0917 - compiled functions are called by position
    tape: Any,
    entries: Any,
    places: Any,
    data: Any,
    begins: Any,
    lengths: Any,
    is_cut: Any,
    is_request: Any,
    paired_keys: Any,
    paired_versions: Any,
    first: int,
    heads: Any,
    rival_heads: Any,
    found: Any,
    remarks: Any,
    counts: Any,
    needed: Any,
    counters: Any,
) -> int:
    """Read frames from number `first` on; return the number of the frame for which there is no room.

    `entries` (int32) holds places on the tape by table, API key and version; `places` (int32) those of
    ApiVersions at versions that the schemas lack. `heads` (HEAD) has an element
    for each frame, `rival_heads` one for readings that are only compared. The rest belongs to a `Machine`.
    If `found` or `remarks` has no room for the rows of a frame, its rows are dropped and `needed` says,
    as `counts` does, how many rows there must be room for.
    """
    for number in range(first, len(begins)):
        frame = FrameSpan(number, begins[number], begins[number] + lengths[number], is_cut[number])
        if number + FRAMES_AHEAD < len(begins):
            prefetch(data, begins[number + FRAMES_AHEAD])
            prefetch(data, begins[number + FRAMES_AHEAD] + CACHE_LINE)
        head, founds, odd = heads[number], counts[FOUND], counts[REMARKS]
        machine = Machine(tape, data, head, found, remarks, counts, counters)
        head.known = True
        head.correlation_id = -1
        head.has_correlation_id = False
        clear(head)
        if is_request[number]:
            rival = Machine(tape, data, rival_heads[0], found, remarks, counts, counters)
            _read_request(machine, rival, frame, entries, places)
        else:
            head.api_key = paired_keys[number]
            head.api_version = paired_versions[number]
            _read_response(machine, frame, entries, places)
        if counts[FOUND] > len(found) or counts[REMARKS] > len(remarks):
            needed[FOUND], needed[REMARKS] = counts[FOUND], counts[REMARKS]
            counts[FOUND], counts[REMARKS] = founds, odd
            return number
    return len(begins)
