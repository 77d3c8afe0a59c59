"""Room for what the machine writes without knowing beforehand how much it will be."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import memory

_FIRST: Final = 64
"""Rows or bytes of each, at first."""


class Room(NamedTuple):
    """The arrays that a `Machine` describes by these names, in the order of its `counts`."""

    found: npt.NDArray[Any]
    remarks: npt.NDArray[Any]
    contents: npt.NDArray[Any]
    client_ids: npt.NDArray[Any]

    @classmethod
    def first(cls) -> Room:
        """Make the room to begin with."""
        rows = np.empty((_FIRST, 5), np.int64), np.empty((_FIRST, 4), np.int64)
        return cls(*rows, np.empty(_FIRST, np.uint8), np.empty(_FIRST, np.uint8))

    def with_room(self, needed: npt.NDArray[np.int64]) -> Room:
        """Make the same with more room where it is needed."""
        return Room._make(map(_enlarged, self, needed.tolist()))

    def taken(self, counts: npt.NDArray[np.int64]) -> Room:
        """Copy what is taken: the room itself serves again, as making it anew would cost more."""
        return Room._make(memory.copied(room[:count]) for room, count in zip(self, counts, strict=True))

    def lent(self, counts: npt.NDArray[np.int64]) -> Room:
        """Give what is taken as it stands here, until the room serves again; only client IDs outlast it."""
        lent = Room._make(room[:count] for room, count in zip(self, counts, strict=True))
        return lent._replace(client_ids=memory.copied(lent.client_ids))


def _enlarged(room: npt.NDArray[Any], needed: int) -> npt.NDArray[Any]:
    if needed <= len(room):
        return room
    grown = np.empty((2 * needed, *room.shape[1:]), room.dtype)
    grown[: len(room)] = room
    return grown
