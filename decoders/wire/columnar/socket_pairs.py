"""Numbers the pairs of sockets that talk: what a connection is looked up by.

A hash table with open addressing and linear probing. Pairs are only ever added; a tracker that has
done with most of them begins a new table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.wire.columnar.segments import SOCKET_WORDS, SegmentBatch

NO_PAIR = -1
UNWATCHED = -2
NO_SEGMENT = -3
"""In place of a pair where there is no segment at all."""
_FEWEST_SLOTS = 1024


class _Table(NamedTuple):
    """The words of each pair by its number, and the number in each slot, NO_PAIR where it is free."""

    slots: NDArray[np.int64]
    words: NDArray[np.int64]

    @classmethod
    def empty(cls, slots: int) -> _Table:
        """Make a table that will be half full at most."""
        return cls(np.full(slots, NO_PAIR), np.empty((slots // 2, SOCKET_WORDS), np.int64))


class SocketPairs:
    """A number for every pair of sockets of which one has a watched port, from 0 in order of sight."""

    def __init__(self, watched: NDArray[np.bool_]) -> None:
        """Take `watched`, which tells of each of the 65536 ports whether it is."""
        self.count = 0
        self._watched = watched
        self._table = _Table.empty(_FEWEST_SLOTS)

    def number(self, segments: SegmentBatch) -> NDArray[np.int64]:
        """Give each segment's pair: NO_PAIR of an unfamiliar one, UNWATCHED where no port is watched."""
        pairs = np.empty(len(segments.familiar), np.int64)
        # Every segment may bring a new pair.
        slots = len(self._table.slots)
        while slots < 2 * (self.count + len(pairs)):
            slots *= 2
        if slots > len(self._table.slots):
            larger = _Table.empty(slots)
            _enter(larger, self._table.words[: self.count])
            self._table = larger
        self.count = int(_number(self._table, self.count, segments, self._watched, pairs))
        return pairs


@inlined
def _slot(table: _Table, sockets: Any) -> Any:
    """Find the slot that holds a pair, or the free one where it belongs."""
    mixed = np.int64(0)
    for index in range(SOCKET_WORDS):
        mixed = (mixed ^ sockets[index]) * np.int64(-0x61C8864680B583EB)
        mixed ^= mixed >> 29
    last = len(table.slots) - 1
    slot = mixed & last
    while table.slots[slot] != NO_PAIR:
        known = table.words[table.slots[slot]]
        different = np.int64(0)
        for index in range(SOCKET_WORDS):
            different |= known[index] ^ sockets[index]
        if different == 0:
            break
        slot = (slot + 1) & last
    return slot


@inlined
def _add(table: _Table, slot: int, pair: int, sockets: Any) -> None:
    table.slots[slot] = pair
    for index in range(SOCKET_WORDS):
        table.words[pair, index] = sockets[index]


@compiled(None)
def _enter(table: _Table, words: Any) -> None:
    """Number the pairs that these words name, all different, in an empty table."""
    for pair in range(len(words)):
        _add(table, _slot(table, words[pair]), pair, words[pair])


@compiled(None)
def _number(table: _Table, count: int, segments: SegmentBatch, watched: Any, pairs: Any) -> Any:
    """Number the pairs of all rows, and tell how many pairs there are now."""
    for row in range(len(pairs)):
        sockets = segments.sockets[row]
        if not segments.familiar[row]:
            pairs[row] = NO_PAIR
        elif not (watched[sockets[4] >> 16 & 0xFFFF] or watched[sockets[4] & 0xFFFF]):
            pairs[row] = UNWATCHED
        else:
            slot = _slot(table, sockets)
            if table.slots[slot] == NO_PAIR:
                _add(table, slot, count, sockets)
                count += 1
            pairs[row] = table.slots[slot]
    return count
