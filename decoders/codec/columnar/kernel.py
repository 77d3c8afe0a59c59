"""Compiled: the entry point, which reads a column of frames with a tape.

What is read, refused and remarked, and in which order, is defined by `codec/reader.py`. Each length or
count in a frame is checked against the bytes that are there, so nothing outside a frame is read.
"""

from __future__ import annotations

from typing import Any, Final

from numba import from_dtype, types

from decoders.codec.columnar.head import HEAD
from decoders.codec.columnar.machine import FOUND, REMARKS, FrameSpan, Machine, clear
from decoders.codec.columnar.memory import CACHE_LINE, FRAMES_AHEAD, prefetch
from decoders.codec.columnar.requests import read_request
from decoders.codec.columnar.responses import read_response
from decoders.compilation import compiled

_FLAGS: Final = types.Array(types.bool_, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int16, 1, "C", readonly=True)
_HEADS: Final = from_dtype(HEAD)[::1]
_ROWS: Final = types.int64[:, ::1]


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
    headers: Any,
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

    `entries` (int32) holds places on the tape by table, API key and version; `headers` (int32) those of
    the request headers of ApiVersions below and above its known versions. `heads` (HEAD) has an element
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
            read_request(machine, rival, frame, entries, headers)
        else:
            head.api_key = paired_keys[number]
            head.api_version = paired_versions[number]
            read_response(machine, frame, entries)
        if counts[FOUND] > len(found) or counts[REMARKS] > len(remarks):
            needed[FOUND], needed[REMARKS] = counts[FOUND], counts[REMARKS]
            counts[FOUND], counts[REMARKS] = founds, odd
            return number
    return len(begins)
