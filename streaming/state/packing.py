"""How values are packed for storage, and for transport between stages.

Rows of integers are *narrowed*: few bytes a value, similar bytes adjacent. All is compressed, and a stored
value is compared with its size. One thread of a process may compress and decompress: both keep a buffer.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from decoders.compilation import compiled
from streaming.state import StateError

_TOGETHER: Final = 64
"""Columns of a matrix that are narrowed or widened at a time: by row, they stay in the processor's cache.

In memory the values of a column are adjacent.
"""
_Integers = NDArray[np.int64]
compress: Final = zstandard.ZstdCompressor(level=1).compress
decompress: Final = zstandard.ZstdDecompressor().decompress


def whole(packed: bytes | None, size: int, what: str) -> bytes:
    """Return a stored value of `what`, empty if there is none. Raises StateError unless it has its size."""
    packed = packed or b""
    if len(packed) != size:
        raise StateError(
            f"the checkpoint holds {len(packed)} bytes of {what} where {size} belong: "
            "bring the folder back as it was, or start with a new checkpoint folder"
        )
    return packed


class Narrowed(msgspec.Struct, array_like=True, gc=False):
    """A matrix of integers, each row as offsets from its minimum.

    `count` is the length of a row. `leasts` and `widths` have the minimum of each row and the bytes that one
    offset takes. `above` has the least significant bytes of all offsets of the first row, their second bytes
    and so on, then those of the next row: similar bytes are adjacent, which compresses better.
    """

    count: int
    leasts: list[int]
    widths: bytes
    above: bytes


def narrowed(rows: _Integers) -> Narrowed:
    """Store a matrix of int64."""
    count = rows.shape[1]
    if not count:
        return Narrowed(0, [0] * len(rows), bytes(len(rows)), b"")
    leasts, mosts, widths = rows[:, 0].copy(), rows[:, 0].copy(), np.empty(len(rows), np.uint8)
    _measure(rows, leasts, mosts, widths)
    planes = np.empty((int(widths.sum()), count), np.uint8)
    _write_planes(rows, leasts, widths, planes)
    return Narrowed(count, leasts.tolist(), widths.tobytes(), planes.tobytes())


def widened(stored: Narrowed, order: Literal["C", "F"] = "C") -> _Integers:
    """Read a matrix back, into memory that is contiguous by row (C) or by column (F)."""
    widths = np.frombuffer(stored.widths, np.uint8)
    planes = np.frombuffer(stored.above, np.uint8).reshape(int(widths.sum()), stored.count)
    rows = np.empty((len(widths), stored.count), np.int64, order)
    _read_planes(planes, np.array(stored.leasts, np.int64), widths, rows)
    return rows


@compiled(None)
def _measure(rows: Any, leasts: Any, mosts: Any, widths: Any) -> None:
    """Lower the minimum and raise the maximum of each row; write the bytes of an offset: 8, 4, 2, 1, or 0."""
    for begin in range(0, rows.shape[1], _TOGETHER):
        end = min(begin + _TOGETHER, rows.shape[1])
        for row in range(len(rows)):
            least, most = leasts[row], mosts[row]
            for at in range(begin, end):
                least, most = min(least, rows[row, at]), max(most, rows[row, at])
            leasts[row], mosts[row] = least, most
    for row in range(len(rows)):
        spread = mosts[row] - leasts[row]
        # One that overflows int64 is negative.
        if spread < 0 or spread >> 32:
            widths[row] = 8
        elif spread >> 16:
            widths[row] = 4
        elif spread >> 8:
            widths[row] = 2
        else:
            widths[row] = spread > 0


@compiled(None)
def _write_planes(rows: Any, leasts: Any, widths: Any, planes: Any) -> None:
    for begin in range(0, rows.shape[1], _TOGETHER):
        end, plane = min(begin + _TOGETHER, rows.shape[1]), 0
        for row in range(len(widths)):
            for byte in range(widths[row]):
                for at in range(begin, end):
                    planes[plane, at] = (rows[row, at] - leasts[row]) >> 8 * byte & 0xFF
                plane += 1


@compiled(None)
def _read_planes(planes: Any, leasts: Any, widths: Any, rows: Any) -> None:
    for begin in range(0, rows.shape[1], _TOGETHER):
        end, plane = min(begin + _TOGETHER, rows.shape[1]), 0
        for row in range(len(widths)):
            for at in range(begin, end):
                rows[row, at] = leasts[row]
            for byte in range(widths[row]):
                for at in range(begin, end):
                    rows[row, at] += np.int64(planes[plane, at]) << 8 * byte
                plane += 1
