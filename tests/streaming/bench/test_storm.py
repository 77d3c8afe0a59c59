"""`bench storm` knows its storm, and runs with a small load; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench.batches import MeasuredBatch
from streaming.bench.storm import measure, storm_seconds


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_small_storm_is_measured_from_end_to_end() -> None:
    measured = measure(connections=1_000, rounds=7, stepped=50)
    assert measured["ratios"].keys() == {"storm_vs_steady"}
    assert min(measured["figures"].values()) > 0
    assert measured["figures"]["opening_microseconds"] < measured["figures"]["opening_by_rules_microseconds"]


STEADY = MeasuredBatch(350, 1.0)


def test_steady_frames_of_a_batch_of_the_storm_take_what_they_take_elsewhere() -> None:
    mixed, rest = MeasuredBatch(350, 2.5), MeasuredBatch(175, 2.0)
    slow = [MeasuredBatch(350, 9.0)] * 4
    assert storm_seconds([*slow, *[STEADY] * 4, mixed, rest], 350) == (4.0, 350.0)


def test_a_storm_in_one_batch_takes_the_time_of_that_batch() -> None:
    assert storm_seconds([STEADY, STEADY, MeasuredBatch(350, 2.0)], 350) == (2.0, 350.0)
