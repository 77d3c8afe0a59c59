"""The lines of the demo about its progress."""

from __future__ import annotations

import io

from rich.console import Console

from streaming.demo.screen import Screen
from streaming.metrics.exposition import MetricsPage

FEEDER = MetricsPage.parsed("kipwatch_capture_bytes_total 68910\n")
QUERY = MetricsPage.parsed(
    'kipwatch_frames_total{api="Fetch",kind="request"} 292\nkipwatch_open_connections 3\n'
)


def shown(screen: Screen, output: io.StringIO) -> list[str]:
    """The lines without their times; the screen is emptied."""
    lines = [line.partition(" s  ")[2] for line in output.getvalue().splitlines()]
    output.seek(0)
    output.truncate()
    return lines


def test_a_new_reason_to_wait_is_shown_at_once_and_the_same_one_is_not_repeated() -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80))
    screen.progress(FEEDER, None, 379, ["Spark starts"])
    assert shown(screen, output) == ["68,910 bytes captured, 379 blocks wait to be judged; Spark starts"]
    screen.progress(FEEDER, None, 380, ["Spark starts"])
    assert shown(screen, output) == []
    screen.progress(FEEDER, None, 380, ["Spark runs"])
    assert shown(screen, output) == ["68,910 bytes captured, 380 blocks wait to be judged; Spark runs"]


def test_once_frames_are_judged_they_are_counted() -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80))
    screen.progress(FEEDER, MetricsPage.parsed("kipwatch_frames_total 0\n"), 1, ["Spark runs"])
    assert "frames judged" not in shown(screen, output)[0]
    screen.progress(FEEDER, QUERY, 0, [])
    assert shown(screen, output) == ["68,910 bytes captured, 292 frames judged, 3 connections open"]
