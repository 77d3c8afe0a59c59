"""What the screen says while the query starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.demo.query_stage import last_event, stage

LOG = """{"query": "started", "time": "t", "id": "x"}
26/11/23 16:00:00 WARN Spark says something
{"query": "starting-workers", "time": "t", "tasks": 2}
{"query": "starting-wor"""


def test_the_last_whole_event_of_the_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "application.log"
    log.write_text("")
    assert last_event(log) == {}
    log.write_text(LOG)
    assert last_event(log) == {"query": "starting-workers", "time": "t", "tasks": 2}


@pytest.mark.parametrize(
    ("event", "responds", "has_judged", "said"),
    [
        ({}, False, False, "the query is loading"),
        ({}, True, False, "Spark starts"),
        ({"query": "started"}, True, False, "Spark runs, the first batch begins"),
        (
            {"query": "starting-workers", "tasks": 2},
            True,
            False,
            "Spark starts its Python workers for the first batch, tasks done: 2",
        ),
        ({"query": "kafka-away", "reason": "timed out"}, True, False, "the query waits for Kafka: timed out"),
        ({"query": "kafka-back"}, True, False, "Spark runs, the first batch begins"),
        ({"query": "batch"}, True, False, "Spark runs, the first batch ends"),
        ({"query": "batch"}, True, True, ""),
    ],
)
def test_each_stage_has_its_words(
    event: dict[str, object], responds: bool, has_judged: bool, said: str
) -> None:
    assert stage(event, responds, has_judged) == said
