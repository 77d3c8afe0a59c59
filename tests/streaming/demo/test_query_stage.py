"""What the screen says while the query starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.demo.query_stage import finding_note, last_event, stage

KAFKA_AWAY = "the query waits for Kafka: timed out"
ENDED = "the query ended and starts again: Kafka is gone"
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
        ({"query": "kafka-back"}, True, False, "Spark runs, the first batch begins"),
        ({"query": "batch"}, True, False, "Spark runs, the first batch ends"),
        ({"query": "batch"}, True, True, ""),
        *(
            ({"query": "kafka-away", "reason": "timed out"}, True, judged, KAFKA_AWAY)
            for judged in (False, True)
        ),
        *(({"query": "ended", "line": "Kafka is gone"}, True, judged, ENDED) for judged in (False, True)),
        ({"query": "kafka-back"}, True, True, ""),
    ],
)
def test_each_stage_has_its_words(
    event: dict[str, object], responds: bool, has_judged: bool, said: str
) -> None:
    assert stage(event, responds, has_judged) == said


@pytest.mark.parametrize(
    ("has_finding", "has_planted", "waits", "said"),
    [
        (False, False, 92, "no finding yet: no offence is planted so far"),
        (False, True, 92, "no finding yet: the planted offences wait to be judged"),
        (False, True, 0, "no finding yet: a batch writes its findings when it ends"),
        (True, True, 92, ""),
    ],
)
def test_the_screen_says_why_there_is_no_finding_yet(
    has_finding: bool, has_planted: bool, waits: int, said: str
) -> None:
    assert finding_note(has_finding, has_planted, waits) == said
