"""Compiled code of the usage of columns: adds up what the windows of a group say, by client ID and period."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.compilation import compiled
from expectations.conversation.columnar.open_addressing import slot_of_row
from expectations.conversation.columnar.window_columns import AT

APART: Final = -2
"""The sum of a window that lies in two periods."""
OF_SUM: Final = 5
_LAST_AT, _COUNT, _SIZE = AT["last_captured_at"], AT["count"], AT["size"]
_FIRST, _BEGIN = 3, 4


@compiled(None)
def add_up(  # noqa: PLR0917 - compiled functions are called by position
    group: Any,
    clients: Any,
    bounds: Any,
    values: Any,
    length: Any,
    seed: Any,
    slots: Any,
    sums: Any,
    added: Any,
    number: Any,
) -> int:
    """Add windows up in periods of `length` nanoseconds; returns how many sums there are.

    `number` gets the sum of each window, MISSED or APART for none. A row of `sums` has the group, the client,
    the period, the first window, and where it begins in `added`: rows of counts and of sizes. `slots` are
    those of `free_slots` for as many sums as windows.
    """
    count, summed = 0, np.int64(0)
    for window in range(len(group)):
        if group[window] < 0:
            continue
        begin, end = bounds[window], bounds[window + 1]
        period = values[_LAST_AT, begin] // length
        for at in range(begin, end):
            if values[_LAST_AT, at] // length != period:
                number[window] = APART
        if number[window] == APART:
            continue
        key = group[window], clients[window], period
        slot = slot_of_row(sums, slots, seed, key)
        if slots[slot] < 0:
            slots[slot] = count
            made = sums[count]
            made[0], made[1], made[2] = key
            made[_FIRST], made[_BEGIN] = window, summed
            summed += end - begin
            count += 1
        number[window] = slots[slot]
        shift = sums[slots[slot], _BEGIN] - begin
        for at in range(begin, end):
            added[0, shift + at] += values[_COUNT, at]
            added[1, shift + at] += values[_SIZE, at]
    return count
