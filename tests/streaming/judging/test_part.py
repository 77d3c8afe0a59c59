"""Places are grouped by the combinations of their keys, in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.judging.part import groups

INT64 = st.sampled_from([-(1 << 63), -1, 0, 1, (1 << 63) - 1])


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(INT64, min_size=width, max_size=width))))
def test_each_combination_has_its_places_in_order(rows: list[list[int]]) -> None:
    expected: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(rows):
        expected.setdefault(tuple(row), []).append(place)
    keys = np.array(rows, np.int64).reshape(len(rows), -1).T if rows else np.empty((1, 0), np.int64)
    found = [(tuple(combination), places.tolist()) for combination, places in groups(*keys)]
    assert found == sorted(expected.items())
