"""Packs rows of integers for transport and storage: few bytes a value, similar bytes adjacent."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

_Integers = NDArray[np.int64]
_WIDTHS: Final = ((1 << 32) - 1, (1 << 16) - 1, (1 << 8) - 1, 0)
"""A row of a wider range than one of these takes 8, 4, 2 or 1 bytes a value; equal values take none."""


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
    leasts = rows.min(axis=1)
    # A difference that overflows int64 is still right as an unsigned integer.
    ranges = (rows.max(axis=1) - leasts).view(np.uint64)
    widths = np.select([ranges > limit for limit in _WIDTHS], [8, 4, 2, 1]).astype(np.uint8)
    above = (rows - leasts[:, np.newaxis]).astype("<i8", order="C")
    planes = above.view(np.uint8).reshape(len(rows), count, 8).transpose(0, 2, 1)[_used(widths)]
    return Narrowed(count, leasts.tolist(), widths.tobytes(), planes.tobytes())


def widened(stored: Narrowed) -> _Integers:
    """Read a matrix back."""
    widths = np.frombuffer(stored.widths, np.uint8)
    above = np.zeros((len(widths), 8, stored.count), np.uint8)
    above[_used(widths)] = np.frombuffer(stored.above, np.uint8).reshape(int(widths.sum()), stored.count)
    values = np.ascontiguousarray(above.transpose(0, 2, 1)).view("<i8").reshape(len(widths), stored.count)
    rows: _Integers = values + np.array(stored.leasts, np.int64)[:, np.newaxis]
    return rows


def _used(widths: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which of the eight bytes of a value are stored, a row for each width."""
    used: NDArray[np.bool_] = np.arange(8) < widths[:, np.newaxis]
    return used
