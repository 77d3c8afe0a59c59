"""The requests in flight of all flows, in ring buffers that share one array."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined

MIN_SLOTS = 16
_MIN_RINGS = 64

IN_FLIGHT = np.dtype(
    [
        ("sequence", np.int64),
        ("correlation_id", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("captured_at", np.int64),
    ]
)
"""A request in flight: the fields of `RequestInFlight`."""


class InFlightRings:
    """Rings of different sizes, all powers of two, in one array `slots` of dtype IN_FLIGHT.

    A ring is identified by the index of its first slot.
    """

    def __init__(self) -> None:
        self.slots = np.zeros(_MIN_RINGS * MIN_SLOTS, IN_FLIGHT)
        self._top = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def acquire(self, size: int) -> int:
        """Return a ring of `size` slots."""
        if self._free[size]:
            return self._free[size].pop()
        return self._append(size)

    def acquire_all(self, size: int, count: int) -> NDArray[np.int64]:
        """Return `count` rings of `size` slots."""
        free = self._free[size]
        kept = max(0, len(free) - count)
        taken, free[kept:] = free[kept:], []
        missing = count - len(taken)
        begin = self._append(size * missing)
        return np.concatenate((np.array(taken, np.int64), begin + size * np.arange(missing)))

    def _append(self, slots: int) -> int:
        """Take slots that were never used, and return the first."""
        begin, self._top = self._top, self._top + slots
        while self._top > len(self.slots):
            self.slots = np.concatenate((self.slots, np.zeros_like(self.slots)))
        return begin

    def release(self, begin: int, size: int) -> None:
        """Make a ring available again."""
        if size:
            self._free[size].append(begin)

    def release_all(self, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Make rings available again."""
        for size in np.unique(sizes[sizes > 0]).tolist():
            self._free[size] += begins[sizes == size].tolist()


def ring_size(in_flight: int) -> int:
    """Return the size of a ring for `in_flight` requests and the one before them, with room for more."""
    return max(MIN_SLOTS, 1 << (in_flight + 1).bit_length())


def slots_of_ring(begin: int, size: int, first: int, count: int) -> NDArray[np.int64]:
    """Return the indices in the array of `count` slots of a ring, from slot number `first` on."""
    return begin + (np.arange(first, first + count) & (size - 1))


@inlined
def slot_of(flow: Any, number: int) -> Any:
    """Return the index in the array of a slot of a flow's ring. Slot numbers wrap around the ring."""
    return flow.ring + (number & (flow.ring_size - 1))
