"""Windows reach their buckets as they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.columnar.window_columns import MISSING, WindowColumns
from expectations.conversation.occurrence import Evidence, Occurrence
from expectations.conversation.window import ConnectionKey, Window
from streaming.judging.bucket_input import _narrowed, _widened, bucket_of, by_bucket, pack_input, unpack_input
from tests.exchange import Exchange
from tests.streaming.judging.test_bucket_step import windows

INT64 = st.integers(MISSING, -MISSING - 1)
PRESENT = st.integers(MISSING + 1, -MISSING - 1)
EVIDENCE = st.builds(
    Evidence, st.sampled_from(["a", "b", ""]), st.binary(max_size=8), *[st.none() | PRESENT] * 4
)
OCCURRENCE = st.builds(
    Occurrence, *[PRESENT] * 4, EVIDENCE, PRESENT, PRESENT, st.none() | PRESENT, PRESENT, PRESENT
)
KEY = st.builds(
    ConnectionKey, st.binary(min_size=16, max_size=16), *[st.sampled_from(["x", "y", "🜍"])] * 3, PRESENT
)


def statements() -> dict[int, object]:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    (window,) = windows(exchange)
    return dict(window.statements)


STATEMENTS = statements()


@st.composite
def said(draw: st.DrawFn) -> list[Window]:
    lengths = draw(st.lists(st.integers(0, 3), max_size=5))
    occurrences = [draw(st.lists(OCCURRENCE, min_size=length, max_size=length)) for length in lengths]
    numbers = [[draw(st.sampled_from([*STATEMENTS])) for _ in each] for each in occurrences]
    return [
        Window(draw(KEY), number, each, STATEMENTS)  # type: ignore[arg-type]
        for number, each in zip(numbers, occurrences, strict=True)
    ]


def contents(found: Sequence[Window]) -> list[object]:
    """What windows say, whatever numbers their statements have."""
    return [
        (window.connection, [window.statements[number] for number in window.numbers], window.occurrences)
        for window in found
    ]


@given(said())
def test_windows_are_the_same_as_columns(given_windows: list[Window]) -> None:
    columns = WindowColumns.of(given_windows)
    assert columns.windows() == given_windows
    assert [columns.window(number) for number in range(len(columns))] == given_windows
    backwards = columns.chosen(np.arange(len(columns))[::-1])
    assert backwards.windows() == given_windows[::-1]
    assert backwards.part(0, len(columns) // 2).windows() == given_windows[::-1][: len(columns) // 2]


@given(said(), st.integers(1, 4))
def test_each_bucket_gets_the_windows_of_its_connections_in_order(
    given_windows: list[Window], buckets: int
) -> None:
    inputs = by_bucket(WindowColumns.of(given_windows), buckets)
    expected: dict[int, list[Window]] = {}
    for window in given_windows:
        expected.setdefault(bucket_of(window.connection.id, buckets), []).append(window)
    received = {number: unpack_input(pack_input(each)).windows() for number, each in inputs.items()}
    assert received.keys() == expected.keys()
    for number, found in received.items():
        assert contents(found) == contents(expected[number])


@given(st.lists(INT64, max_size=5))
def test_narrow_integers_are_the_same_when_they_are_wide_again(values: list[int]) -> None:
    assert _widened(_narrowed(np.array(values, np.int64))).tolist() == values


def test_small_differences_take_a_byte() -> None:
    times = np.array([1_790_000_000_000_000_000, 1_790_000_000_000_000_255], np.int64)
    assert len(_narrowed(times)[2]) == len(times)
