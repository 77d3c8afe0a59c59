"""Compiled: which frames of a batch may not be kept as they are, and what is removed from them.

A step of numpy for each column took longer than the frames: between two batches, tracking displaces its code
and data from the processor's caches.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames, Frames
from decoders.compilation import compiled, inlined
from decoders.frame.record import Kind, Pairing
from decoders.wire.columnar.frames import FrameColumns

KEPT: Final = 0
"""The API has nothing to remove."""
GUARDED: Final = 1
"""The columnar reader finds what its frames may not keep."""
UNKNOWN: Final = 2
"""An unknown API or version: the scalar code decides."""
_LEAD: Final = 4
"""Bytes of a request's API key and version."""
_REQUEST: Final = int(Kind.REQUEST)
_MATCHED: Final = int(Pairing.MATCHED)


class Treatments(NamedTuple):
    """What is done with the frames of each API, indexed by API key as an unsigned number.

    `lowest` and `highest` are its classified versions; none is where the one is above the other.
    """

    of_responses: NDArray[np.uint8]
    of_requests: NDArray[np.uint8]
    lowest: NDArray[np.int16]
    highest: NDArray[np.int16]


class Divided(NamedTuple):
    """The rows of a batch that are GUARDED and UNKNOWN (int64), and the guarded frames for the reader."""

    guarded: NDArray[np.int64]
    unknown: NDArray[np.int64]
    frames: Frames


def divided(data: NDArray[np.uint8], columns: FrameColumns, treatments: Treatments) -> Divided:
    """Find the frames of a batch that may not be kept as they are."""
    rows = len(columns.starts)
    guarded, unknown, begins = (np.empty(rows, np.int64) for _ in range(3))
    lengths, is_request = np.empty(rows, np.int32), np.empty(rows, np.bool_)
    keys, versions = np.empty(rows, np.int16), np.empty(rows, np.int16)
    places = begins, lengths, is_request, keys, versions
    count, unknown_count = _divide(data, columns, treatments, guarded, unknown, *places)
    is_cut = np.zeros(count, np.bool_)
    frames = Frames(
        data,
        begins[:count],
        lengths[:count],
        is_cut,
        is_request[:count],
        keys[:count],
        versions[:count],
    )
    return Divided(guarded[:count], unknown[:unknown_count], frames)


def removed(
    read: DecodedFrames, rows: NDArray[np.int64], is_payload: NDArray[np.bool_], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Remove what was found in frames: cut them at their first payload, and blank other fields.

    `rows` are those of the frames. `is_payload` tells the columns of payloads from the others. `lengths` has
    the length of each row, and gets how much of it is kept. Returns the rows of frames that were not read for
    certain and are left as they are.
    """
    doubtful = np.ones(len(rows), np.bool_)
    found = read.frames.data, read.frames.begins, read.heads, read.found, read.remarks
    count = _remove(*found, rows, is_payload, lengths, doubtful)
    return rows[doubtful] if count else rows[:0]


@compiled(None)
def _divide(  # noqa: PLR0917 - compiled functions are called by position
    data: Any,
    columns: FrameColumns,
    treatments: Treatments,
    guarded: Any,
    unknown: Any,
    begins: Any,
    lengths: Any,
    is_request: Any,
    keys: Any,
    versions: Any,
) -> tuple[int, int]:
    """Write the rows and frames that are not kept as they are. Returns how many are guarded and unknown."""
    count, unknown_count = 0, 0
    for row in range(len(columns.starts)):
        treatment = _treatment(data, columns, treatments, row)
        if treatment == UNKNOWN:
            unknown[unknown_count] = row
            unknown_count += 1
        elif treatment == GUARDED:
            guarded[count] = row
            begins[count], lengths[count] = columns.starts[row], columns.lengths[row]
            is_request[count] = columns.kinds[row] == _REQUEST
            keys[count] = columns.paired_api_keys[row]
            versions[count] = columns.paired_api_versions[row]
            count += 1
    return count, unknown_count


@inlined
def _treatment(data: Any, columns: FrameColumns, treatments: Treatments, row: int) -> Any:
    if columns.kinds[row] == _REQUEST:
        if columns.lengths[row] < _LEAD:
            return UNKNOWN
        start = columns.starts[row]
        key = np.int64(data[start]) << 8 | np.int64(data[start + 1])
        version = np.int16(np.int64(data[start + 2]) << 8 | np.int64(data[start + 3]))
        treatment = treatments.of_requests[key]
    else:
        if columns.pairings[row] != _MATCHED:
            return UNKNOWN
        key = np.int64(columns.paired_api_keys[row]) & 0xFFFF
        version = columns.paired_api_versions[row]
        treatment = treatments.of_responses[key]
    return treatment if treatments.lowest[key] <= version <= treatments.highest[key] else UNKNOWN


@compiled(None)
def _remove(  # noqa: PLR0917 - compiled functions are called by position
    data: Any,
    begins: Any,
    heads: Any,
    found: Any,
    remarks: Any,
    rows: Any,
    is_payload: Any,
    lengths: Any,
    doubtful: Any,
) -> int:
    """Mark the frames that were not read for certain, and cut and blank the others. Returns their number."""
    for number in range(len(rows)):
        head = heads[number]
        doubtful[number] = not head["known"] or head["failure_reason"] >= 0
    for at in range(len(remarks)):
        doubtful[remarks[at, 0]] = True
    for at in range(len(found)):
        number, column, begin, size = found[at, 0], found[at, 1], found[at, 2], found[at, 3]
        if doubtful[number] or size <= 0:
            continue
        if is_payload[column]:
            row = rows[number]
            lengths[row] = min(lengths[row], begin - begins[number])
        else:
            for place in range(begin, begin + size):
                data[place] = 0
    count = 0
    for number in range(len(rows)):
        count += doubtful[number]
    return count
