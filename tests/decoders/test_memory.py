"""Copies of pieces of bytes, and arrays that grow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from decoders.memory import gathered, grown

DATA = bytes(range(256)) * 4


@given(some.lists(some.tuples(some.integers(0, len(DATA)), some.integers(0, 300))))
def test_pieces_are_copied_one_behind_the_other(places: list[tuple[int, int]]) -> None:
    pieces = [DATA[begin : begin + length] for begin, length in places]
    begins, lengths = np.array([begin for begin, _ in places], np.int64), [*map(len, pieces)]
    copied, offsets = gathered(np.frombuffer(DATA, np.uint8), begins, np.array(lengths, np.int64))
    assert copied.tobytes() == b"".join(pieces)
    assert np.diff(offsets).tolist() == lengths


@given(some.integers(0, 9), some.integers(0, 30), some.sampled_from([0, -1]))
def test_an_array_grows_by_filled_rows(rows: int, size: int, fill: int) -> None:
    array = np.arange(1, rows + 1)
    larger = grown(array, size, fill)
    assert (larger is array) == (size <= rows)
    assert larger[:rows].tolist() == array.tolist()
    assert larger[rows:].tolist() == [fill] * (len(larger) - rows)
    assert len(larger) == rows or len(larger) >= max(size, 2 * rows)


def test_rows_of_fields_grow_in_any_shape() -> None:
    array = np.array([[(1, 2, True), (3, 4, False)]], [("a", np.int64), ("b", np.int16), ("c", np.bool_)])
    assert grown(array, 4).tolist() == [*array.tolist(), *[[(0, 0, False)] * 2] * 3]
