"""Adds up what windows as columns say: the usage of many stored connections at once.

Windows of one group have equal statements but for IDs (`columnar_cache.py`). Those of them that have a client
ID in common and lie within a minute are added up in compiled code, and then count as one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.columnar.open_addressing import free_slots
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.judging.columnar_sums import APART, OF_SUM, add_up
from expectations.judging.columnar_words import MISSED
from streaming.judging.usage import MINUTE, Said

_Integers = NDArray[np.int64]


def said_together(
    columns: WindowColumns, group: _Integers, groups: _Integers, clients: _Integers, seed: np.uint64
) -> tuple[list[Said], list[int]]:
    """Add windows up by their group, MISSED for none, and the number of their client ID.

    A row of `groups` begins with the numbers of the server and the software. Returns the windows that lie in
    two minutes, too, which are added up for themselves.
    """
    count = len(columns)
    number = np.full(count, MISSED, np.int64)
    sums = np.empty((count, OF_SUM), np.int64)
    added = np.zeros((2, len(columns.numbers)), np.int64)
    values, slots = np.ascontiguousarray(columns.values), free_slots(count)
    found = add_up(group, clients, columns.bounds, values, MINUTE, seed, slots, sums, added, number)
    connections = np.bincount(number[number >= 0], minlength=found).tolist()
    said = []
    for each, (of_group, client, minute, first, begin) in enumerate(sums[:found].tolist()):
        server, software = groups[of_group, :2].tolist()
        stored, at = (server, software, client), minute * MINUTE
        numbers = columns.numbers[columns.bounds[first] : columns.bounds[first + 1]].tolist()
        counts, sizes = added[:, begin : begin + len(numbers)].tolist()
        said.append(Said(columns, number, each, connections[each], first, at, numbers, counts, sizes, stored))
    return said, np.flatnonzero(number == APART).tolist()
