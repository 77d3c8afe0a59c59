"""The compiled entry: reads a column of frames with a tape, and writes down what it finds.

What is read, refused and remarked, and in which order, is what `codec/reader.py` says. Whatever a
length or a count claims is held against the bytes that are there, so nothing is read outside a frame.
"""

from __future__ import annotations

from typing import Any, Final

from numba import from_dtype, types

from decoders.codec.columnar.head import HEAD
from decoders.codec.columnar.head_columns import HEAD_COLUMNS, write_head
from decoders.codec.columnar.machine import (
    CLIENT_IDS,
    CONTENTS,
    FOUND,
    REMARKS,
    Frame,
    Machine,
    clear,
    keep_contents,
)
from decoders.codec.columnar.prefetching import AHEAD, CACHE_LINE, prefetch
from decoders.codec.columnar.requests import read_request
from decoders.codec.columnar.responses import read_response
from decoders.compilation import compiled

_FLAGS: Final = types.Array(types.bool_, 1, "C", readonly=True)
_NUMBERS: Final = types.Array(types.int16, 1, "C", readonly=True)
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
        from_dtype(HEAD)[::1],
        HEAD_COLUMNS,
        types.uint8[:, ::1],
        _ROWS,
        _ROWS,
        types.uint8[::1],
        types.uint8[::1],
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
    drafts: Any,
    columns: Any,
    flags: Any,
    found: Any,
    remarks: Any,
    contents: Any,
    client_ids: Any,
    counts: Any,
    needed: Any,
    counters: Any,
) -> int:
    """Read frames from the number `first` on; gives the number of the frame that found no room.

    `entries` holds rows of the tape by table, API key and version; `headers` those of the request
    headers of ApiVersions below and above its known versions. `drafts` are two heads to write in, of
    the frame at hand and of a rival reading. `columns` (`HeadColumns`) and `flags` have an element for
    each frame; the rest is that of a `Machine`. When a frame finds no room for what is in it, nothing of
    it is kept, `needed` says as `counts` does how much room there must be, and it is to be read again.
    """
    head, rival_head = drafts[0], drafts[1]
    machine = Machine(tape, data, head, contents, client_ids, found, remarks, counts, counters)
    rival = Machine(tape, data, rival_head, contents, client_ids, found, remarks, counts, counters)
    for number in range(first, len(begins)):
        frame = Frame(number, begins[number], begins[number] + lengths[number], is_cut[number])
        founds, odd, kept, ids = counts[FOUND], counts[REMARKS], counts[CONTENTS], counts[CLIENT_IDS]
        if number + AHEAD < len(begins):
            prefetch(data, begins[number + AHEAD])
            prefetch(data, begins[number + AHEAD] + CACHE_LINE)
        head.known = True
        head.correlation_id = -1
        head.has_correlation_id = False
        clear(head)
        if is_request[number]:
            read_request(machine, rival, frame, entries, headers)
        else:
            head.api_key = paired_keys[number]
            head.api_version = paired_versions[number]
            read_response(machine, frame, entries)
        keep_contents(machine, founds)
        if (
            counts[FOUND] > len(found)
            or counts[REMARKS] > len(remarks)
            or counts[CONTENTS] > len(contents)
            or counts[CLIENT_IDS] > len(client_ids)
        ):
            for sort in range(len(counts)):
                needed[sort] = counts[sort]
            counts[FOUND], counts[REMARKS], counts[CONTENTS], counts[CLIENT_IDS] = founds, odd, kept, ids
            return number
        write_head(head, columns, flags, number, counts[CLIENT_IDS])
    return len(begins)
