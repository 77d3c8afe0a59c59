"""`bench storm` tells its batches apart, and runs with a small load; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench.batches import MeasuredBatch
from streaming.bench.storm import divided, measure


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_small_storm_is_measured_from_end_to_end() -> None:
    measured = measure(connections=1_000, rounds=7, stepped=50)
    assert measured["ratios"].keys() == {"storm_vs_steady"}
    assert min(measured["figures"].values()) > 0
    assert measured["figures"]["opening_microseconds"] < measured["figures"]["opening_by_rules_microseconds"]


STEADY, STORM = MeasuredBatch(350, 1.0), MeasuredBatch(120, 2.0)


@pytest.mark.parametrize(("mixed", "belongs"), [(120, True), (180, True), (340, False)])
def test_a_batch_of_both_belongs_to_the_storm_if_most_of_it_does(mixed: int, belongs: bool) -> None:
    """The storm has 350 frames, of which its last two batches have 240."""
    between = MeasuredBatch(mixed, 2.0)
    in_storm, in_peace = divided([STEADY, STEADY, STEADY, STEADY, between, STORM, STORM], 350)
    assert in_storm == [between, STORM, STORM][not belongs :]
    assert in_peace == [STEADY, STEADY]


def test_a_storm_in_one_batch_is_that_batch() -> None:
    assert divided([STEADY, STEADY, MeasuredBatch(800, 2.0)], 350) == ([MeasuredBatch(800, 2.0)], [STEADY])
