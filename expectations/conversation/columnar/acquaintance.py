"""What connections have said in earlier batches: said again, it is a repeat from the start.

A table in compiled code, since it is asked for every first occurrence of a window. It may forget at any
time; what was forgotten stands by itself once more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined

SLOTS: Final = 1 << 20
MOST: Final = SLOTS // 2
"""Likenesses of connections that are kept; when there are more, all are forgotten."""
_SEQUENCE: Final = 3


class Acquaintance(NamedTuple):
    """The table.

    `slots` (int64) are rows of a connection's id in two halves, a likeness, and the sequence of the
    first record that had it, 0 in a row that is free. `taken` (int64) is one number: of rows that are not.
    """

    slots: NDArray[np.int64]
    taken: NDArray[np.int64]

    @classmethod
    def new(cls) -> Acquaintance:
        """Make a table of nobody."""
        return cls(np.zeros((SLOTS, _SEQUENCE + 1), np.int64), np.zeros(1, np.int64))

    @property
    def is_full(self) -> bool:
        """Whether no more can be noted."""
        return int(self.taken[0]) >= MOST

    def forget(self) -> None:
        """Forget everybody."""
        self.slots[:, _SEQUENCE] = 0
        self.taken[0] = 0


@inlined
def was_said(acquaintance: Any, connection: Any, likeness: Any, sequence: Any) -> Any:
    """Tell whether a connection had a likeness before a sequence, and note that it has it now."""
    slots = acquaintance.slots
    mask = np.uint64(len(slots) - 1)
    value = np.uint64(connection[0]) ^ np.uint64(likeness) * np.uint64(0x9E3779B97F4A7C15)
    slot = (value ^ (value >> np.uint64(32))) & mask
    while slots[slot, _SEQUENCE] != 0:
        row = slots[slot]
        if row[0] == connection[0] and row[1] == connection[1] and row[2] == likeness:
            break
        slot = (slot + np.uint64(1)) & mask
    first = slots[slot, _SEQUENCE]
    if first != 0 and first < sequence:
        return True
    if first != 0 or acquaintance.taken[0] < MOST:
        acquaintance.taken[0] += first == 0
        slots[slot, 0] = connection[0]
        slots[slot, 1] = connection[1]
        slots[slot, 2] = likeness
        slots[slot, _SEQUENCE] = sequence
    return False
