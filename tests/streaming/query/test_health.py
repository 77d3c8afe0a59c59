"""A query that no longer moves is not healthy; one that has not begun yet is given time."""

from __future__ import annotations

from dashboards import thresholds
from streaming.query.health import STALLED_AFTER, STARTED_AFTER, is_healthy

START, BATCH = 1000.0, 2000.0


def test_the_first_batch_may_take_as_long_as_spark_takes_to_start() -> None:
    assert is_healthy(START, 0.0, START + STARTED_AFTER - 1)
    assert not is_healthy(START, 0.0, START + STARTED_AFTER)


def test_a_query_that_finishes_no_batch_for_a_minute_is_not_healthy() -> None:
    assert is_healthy(START, BATCH, BATCH + STALLED_AFTER - 1)
    assert not is_healthy(START, BATCH, BATCH + STALLED_AFTER)


def test_a_supervisor_hears_of_it_before_anybody_is_woken() -> None:
    assert STALLED_AFTER < thresholds.STALLED_AFTER
    assert f"{STARTED_AFTER / 60 + 1:.0f}m" == thresholds.BEGUN_WITHIN
