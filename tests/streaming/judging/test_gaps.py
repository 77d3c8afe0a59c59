"""Bytes with gaps: what was put into them is read back, and nothing else is taken for it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streaming.judging.gaps import Gapped, Slot

VALUES = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.none(),
    st.booleans(),
    st.lists(st.integers(0, 1 << 40) | st.text(max_size=40) | st.binary(max_size=40), max_size=6),
)
PIECES = st.lists(st.binary(max_size=3) | st.builds(Slot, st.integers(0, 4)), max_size=12)


@given(PIECES, st.lists(VALUES, min_size=5, max_size=5))
def test_what_fills_the_gaps_is_read_back(pieces: list[bytes | Slot], values: list[object]) -> None:
    gapped = Gapped(pieces)
    assert gapped.read(gapped.filled(values)) == {slot: values[slot] for slot in gapped.slots}


@given(PIECES, st.lists(st.sampled_from([1, 2, "a", b"a", 1 << 40]), min_size=12, max_size=12))
def test_a_value_that_differs_from_gap_to_gap_is_no_value(
    pieces: list[bytes | Slot], given_values: list[object]
) -> None:
    """Each gap is filled with a value of its own."""
    found: dict[int, set[object]] = {}
    for piece, value in zip(pieces, given_values, strict=False):
        if isinstance(piece, Slot):
            found.setdefault(piece.place, set()).add(value)
    filled = b"".join(
        msgspec.msgpack.encode(value) if isinstance(piece, Slot) else piece
        for piece, value in zip(pieces, given_values, strict=False)
    )
    is_one = all(len(values) == 1 for values in found.values())
    expected = {slot: values.pop() for slot, values in found.items()} if is_one else None
    assert Gapped(pieces).read(filled) == expected


@given(PIECES, st.lists(VALUES, min_size=5, max_size=5), st.binary(min_size=1, max_size=5))
def test_bytes_that_go_on_or_end_before_are_others(
    pieces: list[bytes | Slot], values: list[object], more: bytes
) -> None:
    gapped = Gapped(pieces)
    filled = gapped.filled(values)
    assert gapped.read(filled + more) is None
    assert not filled or gapped.read(filled[:-1]) is None
