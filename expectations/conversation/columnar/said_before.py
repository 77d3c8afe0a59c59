"""A table of the statements that connections made in earlier batches, for folding.

A statement that a connection made in an earlier batch is a repeat from its first occurrence in this one. The
table lives in compiled code, since every first occurrence of a window looks it up. It may be cleared at any
time: a statement that was forgotten merely stands alone once more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined

SLOTS: Final = 1 << 20
CAPACITY: Final = SLOTS // 2
"""Pairs of connection and statement that are kept; the table is cleared when it is full."""
_SEQUENCE: Final = 3


class SaidBefore(NamedTuple):
    """The table, open addressing.

    `slots` (int64, 4 columns): the connection's ID in two halves, the statement's number, and the sequence of
    its first occurrence, 0 in a free slot. `taken` (int64, one element) counts the slots in use.
    """

    slots: NDArray[np.int64]
    taken: NDArray[np.int64]

    @classmethod
    def new(cls) -> SaidBefore:
        """Make an empty table."""
        return cls(np.zeros((SLOTS, _SEQUENCE + 1), np.int64), np.zeros(1, np.int64))

    @property
    def is_full(self) -> bool:
        """Whether no more can be added."""
        return int(self.taken[0]) >= CAPACITY

    def clear(self) -> None:
        """Remove everything."""
        self.slots[:, _SEQUENCE] = 0
        self.taken[0] = 0


@inlined
def was_said(table: Any, connection: Any, statement: Any, sequence: Any) -> Any:
    """Return whether a connection made a statement before a sequence, and add it if it did not."""
    slots = table.slots
    mask = np.uint64(len(slots) - 1)
    value = np.uint64(connection[0]) ^ np.uint64(statement) * np.uint64(0x9E3779B97F4A7C15)
    slot = (value ^ (value >> np.uint64(32))) & mask
    while slots[slot, _SEQUENCE] != 0:
        row = slots[slot]
        if row[0] == connection[0] and row[1] == connection[1] and row[2] == statement:
            break
        slot = (slot + np.uint64(1)) & mask
    first = slots[slot, _SEQUENCE]
    if first != 0 and first < sequence:
        return True
    if first != 0 or table.taken[0] < CAPACITY:
        table.taken[0] += first == 0
        slots[slot, 0] = connection[0]
        slots[slot, 1] = connection[1]
        slots[slot, 2] = statement
        slots[slot, _SEQUENCE] = sequence
    return False
