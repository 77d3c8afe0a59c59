"""Ready is said only when the gauges are whole."""

from __future__ import annotations

from streaming.query.readiness import Readiness
from streaming.query.stages import SUMMARY_INTERVAL

TIMER = SUMMARY_INTERVAL / 1000


def test_nothing_is_whole_before_the_first_batch() -> None:
    assert not Readiness().is_whole


def test_a_query_without_an_earlier_run_is_whole_with_its_first_batch() -> None:
    readiness = Readiness()
    readiness.note(0, 100.0)
    assert readiness.is_whole


def test_after_a_restart_every_timer_must_have_had_its_batch() -> None:
    """A batch that began before the last timer expired may still miss that bucket."""
    readiness = Readiness()
    readiness.note(7, 100.0)
    readiness.note(8, 100.0 + TIMER - 1)
    readiness.note(9, 100.0 + TIMER + 5)
    assert not readiness.is_whole
    readiness.note(10, 100.0 + TIMER + 6)
    assert readiness.is_whole


def test_what_is_whole_stays_whole() -> None:
    readiness = Readiness()
    readiness.note(0, 0.0)
    readiness.note(1, 1.0)
    assert readiness.is_whole
