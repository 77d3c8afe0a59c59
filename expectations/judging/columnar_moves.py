"""Compiled code of the columnar cache: finds the transition of each window, and moves its connection.

It moves as `conversation/progress_numbers.py`, which gives the reasons.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from expectations.conversation.columnar.open_addressing import slot_of_row
from expectations.conversation.columnar.window_columns import AT
from expectations.conversation.progress import NEVER, PROGRESS_NUMBERS
from expectations.judging.columnar_words import (
    IS_HEARTBEAT,
    IS_REQUEST,
    MISSED,
    found_slot,
    may_be_known,
    write_word,
)

NO_VERSION: Final = -1
_FIRST_SEQUENCE, _LAST_SEQUENCE = AT["first_sequence"], AT["last_sequence"]
_LAST_AT, _PREVIOUS_AT = AT["last_captured_at"], AT["previous_captured_at"]
_COUNT, _PAIRED = AT["count"], AT["paired_sequence"]
_P: Final = {name: number for number, name in enumerate(PROGRESS_NUMBERS)}
_CAPTURED_AT, _SEQUENCE, _LOSS = _P["captured_at"], _P["sequence"], _P["loss"]
_CLIENT, _INSTANCE, _MEMBER = _P["client_until"], _P["instance_until"], _P["member_until"]
_HEARTBEAT: Final = _P["member_heartbeat"]
_Integers = NDArray[np.int64]


class Moves(NamedTuple):
    """What became of windows, int64.

    `group` is the group of each window, MISSED if it has no transition; `moves_in_flight` is 1 if the
    requests in flight change. A group has windows of equal `kinds` and equal transition: a row of `groups`
    has these, and where the group's sums begin in `sums`: the frames of each occurrence.
    """

    group: _Integers
    moves_in_flight: _Integers
    groups: _Integers
    sums: _Integers


@inlined
def _show(progress: Any, at: Any, last: Any, previous: Any) -> None:
    """Move the times of an identity that is shown again, unless it never was."""
    until = progress[at]
    if until == NEVER:
        return
    if last > until:
        progress[at], progress[at + 1] = last, max(previous, until)
    else:
        progress[at + 1] = max(progress[at + 1], last)


@inlined
def _move(  # noqa: PLR0917 - compiled functions are called by position
    progress: Any, numbers: Any, values: Any, statements: Any, begin: Any, end: Any, added: Any
) -> Any:
    """Move the progress of a connection. Returns whether other requests are in flight than before.

    `added` has an element per API version, and is all 0 before and afterwards.
    """
    loss = progress[_LOSS]
    for at in range(begin, end):
        number = numbers[at]
        flags, version, paired = statements.flags[number], statements.versions[number], values[_PAIRED, at]
        last = values[_LAST_AT, at]
        progress[_CAPTURED_AT] = max(progress[_CAPTURED_AT], last)
        progress[_SEQUENCE] = max(progress[_SEQUENCE], values[_LAST_SEQUENCE, at])
        if version != NO_VERSION and not (0 < paired <= loss):
            added[version] += statements.signs[number] * values[_COUNT, at]
        if not flags & IS_REQUEST:
            continue
        previous = values[_PREVIOUS_AT, at]
        _show(progress, _CLIENT, last, previous)
        _show(progress, _INSTANCE, last, previous)
        if flags & IS_HEARTBEAT and progress[_MEMBER] != NEVER:
            _show(progress, _MEMBER, last, previous)
            progress[_HEARTBEAT] = values[_FIRST_SEQUENCE, at]
    is_other = False
    for at in range(begin, end):
        version = statements.versions[numbers[at]]
        if version != NO_VERSION:
            is_other = is_other or added[version] != 0
    for at in range(begin, end):
        version = statements.versions[numbers[at]]
        if version != NO_VERSION:
            added[version] = 0
    return is_other


@compiled(None)
def move(  # noqa: PLR0917 - compiled functions are called by position
    stored: Any,
    bounds: Any,
    numbers: Any,
    values: Any,
    statements: Any,
    table: Any,
    seed: Any,
    word: Any,
    added: Any,
    slots: Any,
    moves: Any,
) -> int:
    """Move the progress of each window with a transition; returns the number of groups.

    `stored.progress` is changed. `slots` are those of `free_slots` for as many groups as windows.
    """
    count, summed = 0, np.int64(0)
    for window in range(len(stored.places)):
        moves.group[window] = MISSED
        if stored.places[window] < 0:
            continue
        begin, end = bounds[window], bounds[window + 1]
        if not may_be_known(stored, window, numbers, values, statements, begin, end):
            continue
        length = write_word(stored, window, numbers, statements, begin, end, word)
        found = found_slot(table, seed, word, length)
        if found < 0 or table.slots[found] < 0:
            continue
        kinds = stored.kinds[window]
        key = kinds[0], kinds[1], kinds[2], table.slots[found]
        slot = slot_of_row(moves.groups, slots, seed, key)
        if slots[slot] < 0:
            slots[slot] = count
            group = moves.groups[count]
            group[0], group[1], group[2], group[3] = key
            group[4] = summed
            summed += end - begin
            count += 1
        number = slots[slot]
        moves.group[window] = number
        at_sums = moves.groups[number, 4] - begin
        for at in range(begin, end):
            moves.sums[at_sums + at] += values[_COUNT, at]
        is_other = _move(stored.progress[window], numbers, values, statements, begin, end, added)
        moves.moves_in_flight[window] = 1 if is_other else 0
    return count
