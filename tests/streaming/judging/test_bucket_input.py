"""Windows reach their buckets as they were, and the quarantine passes on a bounded part of the unreadable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.columnar.window_columns import MISSING, WindowColumns
from expectations.conversation.observation import ConnectionKey, Evidence, Occurrence, Window
from streaming.judging.bucket_input import (
    LONGEST_REASON,
    LONGEST_VALUE,
    MOST_BYTES,
    MOST_RECORDS,
    Quarantine,
    Quarantined,
    buckets_of,
    by_bucket,
    pack_input,
    unpack_input,
)
from streaming.state.packing import narrowed, widened
from tests.exchange import Exchange
from tests.streaming.judging.travelling import bucket_of, windows

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
    columns, expected = WindowColumns.of(given_windows), contents(given_windows)
    assert contents(columns.windows()) == expected
    assert contents([columns.window(number) for number in range(len(columns))]) == expected
    backwards = columns.chosen(np.arange(len(columns))[::-1])
    assert contents(backwards.windows()) == expected[::-1]
    half = np.arange(len(columns) // 2)
    assert contents(backwards.chosen(half).windows()) == expected[::-1][: len(half)]


@given(said(), st.integers(1, 4))
def test_each_bucket_gets_the_windows_of_its_connections_in_order(
    given_windows: list[Window], buckets: int
) -> None:
    inputs = by_bucket(WindowColumns.of(given_windows), buckets)
    expected: dict[int, list[Window]] = {}
    for window in given_windows:
        expected.setdefault(bucket_of(window.connection.id, buckets), []).append(window)
    received = {number: unpack_input(pack_input(each)).columns().windows() for number, each in inputs.items()}
    assert received.keys() == expected.keys()
    for number, found in received.items():
        assert contents(found) == contents(expected[number])


@given(st.integers(0, 5).flatmap(lambda count: st.lists(st.lists(INT64, min_size=count, max_size=count))))
def test_narrow_integers_are_the_same_when_they_are_wide_again(rows: list[list[int]]) -> None:
    matrix = np.array(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 0)
    assert widened(narrowed(matrix)).tolist() == rows


@given(st.integers(0, (1 << 32) - 1), st.integers(1, 300), st.sampled_from(["C", "F"]))
def test_so_are_long_rows_in_any_order_in_memory(seed: int, count: int, order: Literal["C", "F"]) -> None:
    """Only some columns are narrowed at a time."""
    random = np.random.default_rng(seed)
    matrix = random.integers(-(1 << 63), (1 << 63) - 1, (4, count)) >> random.integers(0, 64, (4, 1))
    stored = narrowed(np.asarray(matrix, order=order))
    assert stored == narrowed(matrix)
    assert np.array_equal(widened(stored, order), matrix)


def test_small_differences_take_a_byte() -> None:
    times = np.array([[1_790_000_000_000_000_000, 1_790_000_000_000_000_255], [7, 7]], np.int64)
    stored = narrowed(times)
    assert (list(stored.widths), len(stored.above)) == ([1, 0], 2)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1000))
def test_every_id_has_a_bucket(identifier: bytes, buckets: int) -> None:
    (bucket,) = buckets_of(identifier, buckets).tolist()
    assert 0 <= bucket == bucket_of(identifier, buckets) < buckets


def test_the_bucket_of_an_id_is_the_same_in_every_process() -> None:
    """A query that restarts finds what it has stored. The bucket depends on the first four bytes."""
    identifiers = b"".join(bytes([0, 0, 1, low]) + bytes(12) for low in (0, 1, 70))
    assert buckets_of(identifiers, 64).tolist() == [0, 1, 6]


def admitted(quarantine: Quarantine, *values: bytes | None, reason: str = "damaged") -> list[Quarantined]:
    found = (
        quarantine.admit("frames", 1, offset, reason, value) for offset, value in enumerate(values, start=7)
    )
    return [record for record in found if record is not None]


def test_a_record_is_kept_whole_with_its_place_and_reason() -> None:
    (record, empty) = admitted(Quarantine(keeps_values=True), b"poison", None)
    assert record == Quarantined("frames", 1, 7, "damaged", 6, b"poison")
    assert record.key == "frames/1/7"
    assert (empty.size, empty.value) == (0, b"")


def test_the_number_of_records_is_bounded() -> None:
    assert len(admitted(Quarantine(keeps_values=True), *[b"x"] * (MOST_RECORDS + 5))) == MOST_RECORDS


def test_the_bytes_are_bounded_and_the_size_is_told() -> None:
    """Also those of one record, whose beginning is kept then."""
    records = admitted(Quarantine(keeps_values=True), *[bytes(LONGEST_VALUE + 1)] * 3)
    assert [record.size for record in records] == [LONGEST_VALUE + 1] * 3
    assert [len(record.value) for record in records] == [LONGEST_VALUE, MOST_BYTES - LONGEST_VALUE, 0]


def test_a_reason_that_a_stranger_wrote_is_cut() -> None:
    (record,) = admitted(Quarantine(keeps_values=True), b"x", reason="r" * 10_000)
    assert len(record.reason) == LONGEST_REASON


def test_where_identities_are_pseudonyms_no_bytes_are_kept() -> None:
    (record,) = admitted(Quarantine(keeps_values=False), b"a plain client ID")
    assert (record.size, record.value, record.key) == (17, b"", "frames/1/7")
