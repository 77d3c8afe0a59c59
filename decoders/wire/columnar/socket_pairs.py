"""Numbers the socket pairs of segments: the key by which a flow is found.

A hash table with open addressing and linear probing. Pairs are only added, never removed; the tracker begins
a new table when most of their connections are closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.wire.columnar.segments import SOCKET_WORDS, SegmentBatch
from decoders.wire.segment import SocketAddress

NO_PAIR = -1
UNWATCHED = -2
NO_SEGMENT = -3
"""Instead of a pair's number: the segment was not parsed, or no port is watched, or there is no segment."""
_MIN_SLOTS = 1024
_WORD = (1 << 64) - 1
"""An int64 word as an unsigned number."""


class _PairTable(NamedTuple):
    """The number of the pair in each slot, NO_PAIR if it is free, and the socket words of each pair."""

    slots: NDArray[np.int64]
    words: NDArray[np.int64]

    @classmethod
    def empty(cls, slots: int) -> _PairTable:
        """Make a table for at most half as many pairs as slots."""
        return cls(np.full(slots, NO_PAIR), np.empty((slots // 2, SOCKET_WORDS), np.int64))


class SocketPairs:
    """Numbers every socket pair of which one port is watched, from 0 in the order in which they appear."""

    def __init__(self, watched: NDArray[np.bool_]) -> None:
        """Watch the ports for which `watched`, of shape (65536,), is true."""
        self.count = 0
        self._watched = watched
        self._table = _PairTable.empty(_MIN_SLOTS)

    def number(self, segments: SegmentBatch) -> NDArray[np.int64]:
        """Return each segment's pair (int64): NO_PAIR if not parsed, UNWATCHED if no port is watched."""
        pairs = np.empty(len(segments.parsed), np.int64)
        # Every segment may have a new pair.
        slots = len(self._table.slots)
        while slots < 2 * (self.count + len(pairs)):
            slots *= 2
        if slots > len(self._table.slots):
            larger = _PairTable.empty(slots)
            _enter(larger, self._table.words[: self.count])
            self._table = larger
        self.count = int(_number(self._table, self.count, segments, self._watched, pairs))
        return pairs

    def find(self, one: SocketAddress, other: SocketAddress) -> int:
        """Return the pair of two sockets, NO_PAIR if no segment that was parsed is between them."""
        return int(_find(self._table, words_of(one, other)))


def sockets_of(words: Sequence[int]) -> tuple[SocketAddress, SocketAddress]:
    """Return the lower and the upper socket of the words that `SegmentBatch` has for them."""
    lower_high, lower, upper_high, upper, last = words
    addresses: tuple[bytes, bytes]
    if last >> 32 == 4:
        addresses = lower.to_bytes(4), upper.to_bytes(4)
    else:
        addresses = (
            ((lower_high & _WORD) << 64 | lower & _WORD).to_bytes(16),
            ((upper_high & _WORD) << 64 | upper & _WORD).to_bytes(16),
        )
    return SocketAddress(addresses[0], last >> 16 & 0xFFFF), SocketAddress(addresses[1], last & 0xFFFF)


def words_of(one: SocketAddress, other: SocketAddress) -> NDArray[np.int64]:
    """Return the words that `SegmentBatch` has for two sockets, shape (SOCKET_WORDS,)."""
    (*lower, lower_port), (*upper, upper_port) = sorted(
        (*_halves(each.address), each.port) for each in (one, other)
    )
    version = 4 if len(one.address) == 4 else 6
    return np.array([*lower, *upper, version << 32 | lower_port << 16 | upper_port], np.int64)


def _halves(address: bytes) -> tuple[int, int]:
    """Return the upper and the lower half of an address, as signed numbers if it is one of IPv6."""
    if len(address) == 4:
        return 0, int.from_bytes(address)
    return int.from_bytes(address[:8], signed=True), int.from_bytes(address[8:], signed=True)


@inlined
def _slot(table: _PairTable, sockets: Any) -> Any:
    """Return the slot that holds a pair, or the free slot for it."""
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
def _add(table: _PairTable, slot: int, pair: int, sockets: Any) -> None:
    table.slots[slot] = pair
    for index in range(SOCKET_WORDS):
        table.words[pair, index] = sockets[index]


@compiled(None)
def _enter(table: _PairTable, words: Any) -> None:
    """Add pairs, all different, to an empty table."""
    for pair in range(len(words)):
        _add(table, _slot(table, words[pair]), pair, words[pair])


@compiled(None)
def _number(table: _PairTable, count: int, segments: SegmentBatch, watched: Any, pairs: Any) -> Any:
    """Write the number of each row's pair to `pairs`, and return how many pairs the table has now."""
    for row in range(len(pairs)):
        sockets = segments.sockets[row]
        if not segments.parsed[row]:
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


@compiled(None)
def _find(table: _PairTable, sockets: Any) -> Any:
    """Return the number of a pair, NO_PAIR if the table does not have it."""
    return table.slots[_slot(table, sockets)]
