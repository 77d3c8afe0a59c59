"""Where IDs are stored is found by searching them and by what was noted, with the same result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.state.connection_layout import NOWHERE
from streaming.state.stored_ids import SEARCHES, StoredIds
from tests.examples import examples

IDS = st.text("ab", min_size=16, max_size=16).map(str.encode) | st.sampled_from(
    [b"ab" * 8, b"ba" * 8, b"a" * 16]
)
"""IDs that are found across the border of two others."""


@given(st.lists(IDS, max_size=8), st.lists(st.lists(IDS, max_size=4), max_size=3), st.lists(IDS, max_size=8))
@examples(200)
def test_an_id_has_its_first_place_however_often_it_was_asked_for(
    stored: list[bytes], added: list[list[bytes]], others: list[bytes]
) -> None:
    rare, often, listed = StoredIds(b"".join(stored)), StoredIds(b"".join(stored)), list(stored)
    for more in [[], *added]:
        for _ in range(SEARCHES + 1):
            often.find(b"a" * 16)
        rare.append(more)
        often.append(more)
        listed += more
        assert rare.joined == often.joined == b"".join(listed)
        for connection in [*listed[:4], *others[:4]]:
            place = listed.index(connection) if connection in listed else NOWHERE
            assert often.find(connection) == place
        assert [often.at(place) for place in range(len(listed))] == listed
    for connection in [*listed, *others][:SEARCHES]:
        assert rare.find(connection) == (listed.index(connection) if connection in listed else NOWHERE)
