"""Packs rows of integers for transport and storage: few bytes a value, similar bytes adjacent."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled

_Integers = NDArray[np.int64]


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
    leasts, widths = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint8)
    _measure(rows, leasts, widths)
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
def _measure(rows: Any, leasts: Any, widths: Any) -> None:
    """Write the minimum of each row, and the bytes that an offset from it takes: 8, 4, 2, 1, or 0."""
    for row in range(len(rows)):
        least = most = rows[row, 0]
        for at in range(rows.shape[1]):
            least, most = min(least, rows[row, at]), max(most, rows[row, at])
        leasts[row] = least
        spread = most - least
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
    plane = 0
    for row in range(len(widths)):
        for byte in range(widths[row]):
            for at in range(rows.shape[1]):
                planes[plane, at] = (rows[row, at] - leasts[row]) >> 8 * byte & 0xFF
            plane += 1


@compiled(None)
def _read_planes(planes: Any, leasts: Any, widths: Any, rows: Any) -> None:
    plane = 0
    for row in range(len(widths)):
        rows[row] = leasts[row]
        for byte in range(widths[row]):
            for at in range(rows.shape[1]):
                rows[row, at] += np.int64(planes[plane, at]) << 8 * byte
            plane += 1
