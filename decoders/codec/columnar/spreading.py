"""What was found, put where its frame is: the values of columns that have one for each frame."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types

from decoders.compilation import compiled

_FOUND: Final = types.Array(types.int64, 2, "C", readonly=True)
_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_ROWS: Final = types.Array(types.int32, 1, "C", readonly=True)


@compiled(types.void(_FOUND, _ROWS, types.uint8[:, ::1], types.int64[:, ::1], types.int64[:, ::1]))
def spread(found: Any, rows: Any, flags: Any, values: Any, offsets: Any) -> None:
    """Spread what was found; where a frame has several values of a column, the last one stays.

    `rows` says of each column which row it has: of `values` if below their number, else, counted on,
    of `offsets`, or -1 if it is none of these. All three arrays have an element a frame, `offsets`
    one more. `flags` and `values` are zero where nothing was found. On return `offsets` say where the
    contents of each begin and end when all are laid one behind the other.
    """
    for number in range(len(found)):
        row = rows[found[number, 1]]
        if row >= 0:
            frame = np.uint64(found[number, 0])
            flags[np.uint64(row), frame] = 1
            if row < len(values):
                values[np.uint64(row), frame] = found[number, 2]
            else:
                offsets[np.uint64(row - len(values)), frame + np.uint64(1)] = found[number, 3]
    end = np.int64(0)
    for column in range(len(offsets)):
        for at in range(offsets.shape[1]):
            end += offsets[column, at]
            offsets[column, at] = end


@compiled(types.void(_FOUND, _ROWS, types.int64, _FOUND, _BYTES, types.uint8[::1]))
def gather_found(  # noqa: PLR0917 - compiled functions are called by position
    found: Any, rows: Any, first: int, offsets: Any, contents: Any, gathered: Any
) -> None:
    """Copy contents that were found to where the offsets say; theirs are the rows from `first` on."""
    for number in range(len(found)):
        row = rows[found[number, 1]] - first
        if row >= 0:
            frame, source = np.uint64(found[number, 0]), np.uint64(found[number, 4])
            target = offsets[np.uint64(row), frame]
            end = min(target + found[number, 3], offsets[np.uint64(row), frame + np.uint64(1)])
            for at in range(target, end):
                gathered[np.uint64(at)] = contents[source]
                source += np.uint64(1)
