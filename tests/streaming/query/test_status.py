"""Health means that the query makes progress; readiness means that the gauges cover every connection."""

from __future__ import annotations

from dashboards import thresholds
from streaming.query.stages import SUMMARY_INTERVAL
from streaming.query.status import STALLED_AFTER, STARTED_AFTER, Readiness, is_healthy

START, BATCH = 1000.0, 2000.0
TIMER = SUMMARY_INTERVAL / 1000


NEVER = 0.0


def test_the_first_batch_may_take_as_long_as_spark_takes_to_start() -> None:
    assert is_healthy(START, NEVER, NEVER, START + STARTED_AFTER - 1)
    assert not is_healthy(START, NEVER, NEVER, START + STARTED_AFTER)


def test_a_query_that_finishes_no_batch_for_a_minute_is_not_healthy() -> None:
    assert is_healthy(START, BATCH, NEVER, BATCH + STALLED_AFTER - 1)
    assert not is_healthy(START, BATCH, NEVER, BATCH + STALLED_AFTER)


def test_a_query_that_waits_for_kafka_is_healthy_however_long_that_takes() -> None:
    assert is_healthy(START, BATCH, BATCH + 3600, BATCH + 3601)
    assert is_healthy(START, NEVER, START + 3600, START + 3601)


def test_a_query_that_does_not_go_on_when_kafka_answers_again_is_not_healthy() -> None:
    back = BATCH + 3600
    assert is_healthy(START, BATCH, back, back + STALLED_AFTER - 1)
    assert not is_healthy(START, BATCH, back, back + STALLED_AFTER)


def test_a_stalled_query_is_unhealthy_before_its_alert_fires() -> None:
    assert STALLED_AFTER < thresholds.STALLED_AFTER
    assert f"{STARTED_AFTER / 60 + 1:.0f}m" == thresholds.BEGUN_WITHIN


def test_the_query_is_not_ready_before_the_first_batch() -> None:
    assert not Readiness().is_ready


def test_a_query_without_an_earlier_run_is_ready_after_its_first_batch() -> None:
    readiness = Readiness()
    readiness.record_batch(0, 100.0)
    assert readiness.is_ready


def test_a_restarted_query_is_ready_after_a_batch_that_began_after_all_timers() -> None:
    """A batch that began before the last timer expired may still miss that bucket."""
    readiness = Readiness()
    readiness.record_batch(7, 100.0)
    readiness.record_batch(8, 100.0 + TIMER - 1)
    readiness.record_batch(9, 100.0 + TIMER + 5)
    assert not readiness.is_ready
    readiness.record_batch(10, 100.0 + TIMER + 6)
    assert readiness.is_ready


def test_a_ready_query_stays_ready() -> None:
    readiness = Readiness()
    readiness.record_batch(0, 0.0)
    readiness.record_batch(1, 1.0)
    assert readiness.is_ready
