"""Copies of pieces of bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from decoders.memory import gathered

DATA = bytes(range(256)) * 4


@given(some.lists(some.tuples(some.integers(0, len(DATA)), some.integers(0, 300))))
def test_pieces_are_copied_one_behind_the_other(places: list[tuple[int, int]]) -> None:
    pieces = [DATA[begin : begin + length] for begin, length in places]
    begins, lengths = np.array([begin for begin, _ in places], np.int64), [*map(len, pieces)]
    copied, offsets = gathered(np.frombuffer(DATA, np.uint8), begins, np.array(lengths, np.int64))
    assert copied.tobytes() == b"".join(pieces)
    assert np.diff(offsets).tolist() == lengths
