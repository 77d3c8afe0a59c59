"""Words of windows, in compiled code: the keys of transitions in the columnar cache.

Whether a window may have a transition is decided as in `streaming/judging/judgement_cache.py`, which gives
the reasons. What that reads of a statement and of a connection are numbers here. A word has the numbers of
both fingerprints and of each symbol.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from expectations.conversation.columnar.open_addressing import mixed
from expectations.conversation.columnar.window_columns import AT
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.judging.id_numbers import NO_ID

UNKNOWN: Final = 0
"""The number of a code or a fingerprint that no transition has."""
MISSED: Final = -1
LONGEST_WORD: Final = 64
"""Occurrences of a window that may have a transition here."""
OF_SYMBOL: Final = 3
"""Numbers of a word for each of its symbols: the code, and client and instance if they are foreign."""
WORD: Final = 2 + OF_SYMBOL * LONGEST_WORD
PROBES: Final = 32
"""Slots that are looked at for a transition."""
IS_RESPONSE, IS_HEARTBEAT, IS_REQUEST, CONCERNS_MEMBER = 1, 2, 4, 8
"""Bits of a statement's `flags`."""
_FIRST_SEQUENCE, _COUNT, _PAIRED = AT["first_sequence"], AT["count"], AT["paired_sequence"]
_SEQUENCE, _LOSS = PROGRESS_NUMBERS.index("sequence"), PROGRESS_NUMBERS.index("loss")
_Integers = NDArray[np.int64]


class Statements(NamedTuple):
    """One element per statement, int64: what its `Symbol` says, with numbers for code and API version."""

    codes: _Integers
    clients: _Integers
    instances: _Integers
    members: _Integers
    flags: _Integers
    versions: _Integers
    signs: _Integers


class Stored(NamedTuple):
    """One row per window, int64: what is stored of its connection.

    `progress` has a column for each of PROGRESS_NUMBERS, `ids` those of client, instance and member. `states`
    has the numbers of both fingerprints. `kinds` has the places of server and software, and the number of the
    window's server.
    """

    places: _Integers
    progress: _Integers
    ids: _Integers
    states: _Integers
    kinds: _Integers


class Table(NamedTuple):
    """Transitions by their words, open addressing, int64.

    `slots` has the number of a transition, or MISSED. Transition t has the word from `begins[t]` to
    `begins[t + 1]` in `words`.
    """

    slots: _Integers
    begins: _Integers
    words: _Integers


@inlined
def hashed(seed: Any, word: Any, length: Any) -> Any:
    """Hash a word. The seed is a secret, so that nobody makes words that collide."""
    value = seed
    for at in range(length):
        value = mixed(value, word[at])
    return value


@compiled(None)
def slot_of(table: Any, seed: Any, word: Any, length: Any) -> int:
    """Return the slot of a word, or the free one for it; MISSED if there is none near its place."""
    slot: int = found_slot(table, seed, word, length)
    return slot


@inlined
def found_slot(table: Any, seed: Any, word: Any, length: Any) -> Any:
    """Do what `slot_of` does, for compiled callers."""
    mask = np.uint64(len(table.slots) - 1)
    slot = hashed(seed, word, length) & mask
    for _ in range(PROBES):
        found = table.slots[slot]
        if found < 0:
            return np.int64(slot)
        begin = table.begins[found]
        if table.begins[found + 1] - begin == length:
            at = np.int64(0)
            while at < length and table.words[begin + at] == word[at]:
                at += 1
            if at == length:
                return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return np.int64(MISSED)


@inlined
def _are_in_turn(numbers: Any, values: Any, statements: Any, begin: Any, end: Any) -> Any:
    """Whether each heartbeat is answered before the next one, as often as it was sent."""
    waiting = np.int64(MISSED)
    for at in range(begin, end):
        flags = statements.flags[numbers[at]]
        if not flags & IS_HEARTBEAT:
            continue
        if not flags & IS_RESPONSE:
            if waiting >= 0:
                return False
            waiting = np.int64(at)
            continue
        if waiting < 0 or values[_PAIRED, at] != values[_FIRST_SEQUENCE, waiting]:
            return False
        if values[_COUNT, at] != values[_COUNT, waiting]:
            return False
        waiting = np.int64(MISSED)
    return waiting < 0


@inlined
def may_be_known(  # noqa: PLR0917 - compiled functions are called by position
    stored: Any, window: Any, numbers: Any, values: Any, statements: Any, begin: Any, end: Any
) -> Any:
    """Whether a window may have a transition: see `streaming/judging/judgement_cache.py`."""
    if begin >= end or end - begin > LONGEST_WORD or stored.states[window, 0] == UNKNOWN:
        return False
    loss, concerns_member = stored.progress[window, _LOSS], False
    if values[_FIRST_SEQUENCE, begin] <= stored.progress[window, _SEQUENCE]:
        return False
    for at in range(begin, end):
        number = numbers[at]
        flags, member = statements.flags[number], statements.members[number]
        if statements.codes[number] == UNKNOWN or (member not in (NO_ID, stored.ids[window, 2])):
            return False
        if loss != 0 and flags & IS_RESPONSE and values[_PAIRED, at] <= loss:
            return False
        concerns_member = concerns_member or flags & CONCERNS_MEMBER != 0
    if not concerns_member:
        return True
    return stored.states[window, 1] != UNKNOWN and _are_in_turn(numbers, values, statements, begin, end)


@inlined
def write_word(  # noqa: PLR0917 - compiled functions are called by position
    stored: Any, window: Any, numbers: Any, statements: Any, begin: Any, end: Any, word: Any
) -> Any:
    """Write the word of a window, and return its length."""
    word[0], word[1] = stored.states[window, 0], np.int64(0)
    length = np.int64(2)
    for at in range(begin, end):
        number = numbers[at]
        if statements.flags[number] & CONCERNS_MEMBER:
            word[1] = stored.states[window, 1]
        client, instance = statements.clients[number], statements.instances[number]
        word[length] = statements.codes[number]
        word[length + 1] = np.int64(NO_ID) if client == stored.ids[window, 0] else client
        word[length + 2] = np.int64(NO_ID) if instance == stored.ids[window, 1] else instance
        length += OF_SYMBOL
    return length
