"""Compiled: rows of numbers that are found by their first numbers, with open addressing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined

FREE: Final = -1
"""In a slot that has no row."""


def free_slots(rows: int) -> NDArray[np.int64]:
    """Return slots for up to so many rows: a power of two of them, at least twice as many."""
    return np.full(1 << (2 * rows).bit_length(), FREE, np.int64)


@inlined
def mixed(value: Any, word: Any) -> Any:
    """Mix a number into a hash (uint64)."""
    value = (value ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    return value ^ (value >> np.uint64(32))


@inlined
def slot_of_row(rows: Any, slots: Any, seed: Any, key: Any) -> Any:
    """Return the slot of the row that begins with a key, a tuple of int64, or the free one for it.

    The seed is a secret where strangers choose the keys, so that nobody makes keys that collide.
    """
    mask = np.uint64(len(slots) - 1)
    value = seed
    for at in range(len(key)):
        value = mixed(value, key[at])
    slot = value & mask
    while slots[slot] >= 0:
        row, is_same = rows[slots[slot]], True
        for at in range(len(key)):
            is_same = is_same and row[at] == key[at]
        if is_same:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot
