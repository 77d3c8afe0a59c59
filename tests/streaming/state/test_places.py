"""Connections are found among the stored ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.state.connections import NOWHERE, places_of

IDS = st.sampled_from([bytes([first]) * 8 + bytes([second]) * 8 for first in range(3) for second in range(3)])


@given(
    st.lists(IDS, max_size=9, unique=True),
    st.lists(st.tuples(IDS, st.booleans()), max_size=9, unique_by=lambda x: x[0]),
)
def test_each_is_found_where_it_is_stored(wanted: list[bytes], stored: list[tuple[bytes, bool]]) -> None:
    ids = b"".join(name for name, _ in stored)
    is_stored = np.array([is_there for _, is_there in stored], np.bool_)
    there = {name: place for place, (name, is_there) in enumerate(stored) if is_there}
    expected = [there.get(name, NOWHERE) for name in wanted]
    assert places_of(b"".join(wanted), ids, is_stored).tolist() == expected
