"""The requests that wait for an answer, of all lanes, in rings that one array holds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import inlined

FEWEST_PLACES = 16
_FEWEST_RINGS = 64

WAITING = np.dtype(
    [
        ("sequence", np.int64),
        ("correlation_id", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("asked_at", np.int64),
    ]
)
"""A request that waits: what `Owed` tells."""


class Rings:
    """Rings of different sizes, all powers of two; a ring is named by where it begins in `places`."""

    def __init__(self) -> None:
        self.places = np.zeros(_FEWEST_RINGS * FEWEST_PLACES, WAITING)
        self._top = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    def acquire(self, size: int) -> int:
        """Give a ring with so many places."""
        if self._free[size]:
            return self._free[size].pop()
        begin, self._top = self._top, self._top + size
        while self._top > len(self.places):
            self.places = np.concatenate((self.places, np.zeros_like(self.places)))
        return begin

    def release(self, begin: int, size: int) -> None:
        """Have done with a ring."""
        if size:
            self._free[size].append(begin)


def ring_size(waiting: int) -> int:
    """Tell how large a ring is for so many requests and one before them, with some room for more."""
    return max(FEWEST_PLACES, 1 << (waiting + 1).bit_length())


def in_ring(begin: int, size: int, first: int, count: int) -> NDArray[np.int64]:
    """Give the places in the array of `count` places of a ring, from the one numbered `first` on."""
    return begin + (np.arange(first, first + count) & (size - 1))


@inlined
def place_of(lane: Any, number: int) -> Any:
    """Tell where in the array a place of a lane's ring is; places are numbered without end."""
    return lane.ring + (number & (lane.ring_size - 1))
