"""Compiled: finds equal rows of numbers and texts, in tables with open addressing and linear probing.

`slots` hold the numbers of rows or groups, FREE where there is none; their number is a power of two.
`slot_of_row` looks up a row by its first numbers, `grouped` groups rows that are equal.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.keyed_hash import HashKeys, first_slot, hashed

FREE: Final = -1
"""In a slot without a row."""


def free_slots(rows: int) -> NDArray[np.int64]:
    """Return free slots for up to so many rows: at least twice as many."""
    return np.full(1 << (2 * rows).bit_length(), FREE, np.int64)


@inlined
def slot_of_row(rows: Any, slots: Any, keys: Any, key: Any) -> Any:
    """Return the slot of the row that begins with a key, several int64, or the free one for it."""
    mask = np.uint64(len(slots) - 1)
    slot = first_slot(hashed(keys, np.uint64(0), key), len(slots))
    while slots[slot] >= 0:
        row, is_same = rows[slots[slot]], True
        for at in range(len(key)):
            is_same = is_same and row[at] == key[at]
        if is_same:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


_WORD_BYTES: Final = 8


class Groups(NamedTuple):
    """Groups of equal rows.

    `members` (int64) is the group of each row. `first` (int64) is the first row of each group.
    """

    members: NDArray[np.int64]
    first: NDArray[np.int64]


_NO_DATA: Final = np.empty(0, np.uint8)


def grouped(
    keys: HashKeys,
    words: NDArray[np.int64],
    data: NDArray[np.uint8] = _NO_DATA,
    texts: NDArray[np.int64] | None = None,
) -> Groups:
    """Group rows by their numbers, `words`, at most MOST_WORDS, and their texts in `data`, if they have any.

    A row of `texts` holds begin and length of one text after the other; a length of -1 stands for a missing
    one.
    """
    texts = np.empty((len(words), 0), np.int64) if texts is None else texts
    members, first = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    count = _group(keys, words, data, texts, free_slots(len(words)), members, first)
    return Groups(members, first[:count].copy())


@inlined
def _word(data: Any, begin: Any) -> Any:
    word = np.uint64(0)
    for byte in range(_WORD_BYTES):
        word |= np.uint64(data[begin + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@inlined
def _hashed_text(keys: Any, value: Any, data: Any, begin: Any, length: Any) -> Any:
    value = hashed(keys, value, (length,))
    if length > 0:
        at, left = np.uint64(begin), length
        while left >= _WORD_BYTES:
            value = hashed(keys, value, (_word(data, at),))
            at += np.uint64(_WORD_BYTES)
            left -= _WORD_BYTES
        while left > 0:
            value = hashed(keys, value, (data[at],))
            at += np.uint64(1)
            left -= 1
    return value


@inlined
def _same_text(data: Any, begin: Any, other: Any, length: Any) -> Any:
    at, there, left = np.uint64(begin), np.uint64(other), length
    while left >= _WORD_BYTES and _word(data, at) == _word(data, there):
        at += np.uint64(_WORD_BYTES)
        there += np.uint64(_WORD_BYTES)
        left -= _WORD_BYTES
    while left > 0 and data[at] == data[there]:
        at += np.uint64(1)
        there += np.uint64(1)
        left -= 1
    return left <= 0


@inlined
def _is_same(words: Any, data: Any, texts: Any, row: Any, other: Any) -> Any:
    for at in range(words.shape[1]):
        if words[row, at] != words[other, at]:
            return False
    for at in range(0, texts.shape[1], 2):
        length = texts[row, at + 1]
        if length != texts[other, at + 1] or not _same_text(data, texts[row, at], texts[other, at], length):
            return False
    return True


@compiled(None)
def _group(  # noqa: PLR0917 - compiled functions are called by position
    keys: Any, words: Any, data: Any, texts: Any, slots: Any, members: Any, first: Any
) -> int:
    """Number the groups by their first rows. Returns the number of groups."""
    mask, count = np.uint64(len(slots) - 1), 0
    for row in range(len(words)):
        value = hashed(keys, np.uint64(0), words[row])
        for at in range(0, texts.shape[1], 2):
            value = _hashed_text(keys, value, data, texts[row, at], texts[row, at + 1])
        slot = first_slot(value, len(slots))
        while slots[slot] >= 0 and not _is_same(words, data, texts, row, first[slots[slot]]):
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = count
            first[count] = row
            count += 1
        members[row] = slots[slot]
    return count
