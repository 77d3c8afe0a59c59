"""How far a query is: its metrics page, backlog and stage, and whether it stalls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from expectations.rules.base.rule import Verdict
from streaming.demo.progress import (
    NOTED_SECONDS,
    STALLED_SECONDS,
    Standstill,
    finding_note,
    judged_offsets,
    last_event,
    scrape,
    stage,
    waiting,
)
from streaming.metrics.exposition import MetricsPage, serve
from streaming.query.application_metrics import ApplicationMetrics

CHECKS = "kipwatch_rule_checks_total"
TOPIC = "kipwatch.frames"
KAFKA_AWAY = "the query waits for Kafka: timed out"
ENDED = "the query ended and starts again: Kafka is gone"
LOG = """{"query": "started", "time": "t", "id": "x"}
26/11/23 16:00:00 WARN Spark says something
{"query": "starting-workers", "time": "t", "tasks": 2}
{"query": "starting-wor"""


def metrics() -> ApplicationMetrics:
    made = ApplicationMetrics(["a/one", "a/two"], version="0.1.0", kafka="4.4.0")
    made.count_checks("a/one", Verdict.VIOLATES, 2)
    made.count_checks("a/one", Verdict.CONFORMS, 5)
    made.count_checks("a/two", Verdict.CONFORMS, 1)
    return made


def test_samples_are_summed_by_labels() -> None:
    page = MetricsPage.parsed(generate_latest(metrics().registry).decode())
    assert page.total(CHECKS) == 8
    assert page.total(CHECKS, verdict="conforms") == 6
    assert page.total(CHECKS, rule="a/one", verdict="conforms") == 5
    assert page.total("kipwatch_nothing") == 0
    assert page.by(CHECKS, "rule") == {("a/one",): 7, ("a/two",): 1}
    assert page.by(CHECKS, "rule", "verdict")["a/one", "violates"] == 2


def test_a_page_is_scraped_and_an_absent_one_is_none() -> None:
    exposition = serve(metrics().registry, 0, lambda: True, lambda: True)
    address = f"127.0.0.1:{exposition.port}"
    page = scrape(address)
    exposition.close()
    assert page is not None and page.total(CHECKS) == 8
    assert scrape(address) is None


def batch(checkpoint: Path, number: int, offsets: dict[str, int], finished: bool) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({TOPIC: offsets})]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))
    if finished:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
        (checkpoint / "commits" / f".{number}.crc").write_bytes(b"crc")


def test_nothing_is_judged_before_the_first_batch_has_finished(tmp_path: Path) -> None:
    assert judged_offsets(tmp_path, TOPIC) == {}
    batch(tmp_path, 0, {"0": 7}, finished=False)
    assert judged_offsets(tmp_path, TOPIC) == {}


def test_the_latest_finished_batch_counts(tmp_path: Path) -> None:
    for number in range(11):
        batch(tmp_path, number, {"0": number, "1": 2 * number}, finished=number < 10)
    assert judged_offsets(tmp_path, TOPIC) == {0: 9, 1: 18}


def test_records_of_a_partition_that_no_batch_has_read_wait() -> None:
    assert waiting({0: 10, 1: 5}, {0: 8}) == 7
    assert waiting({0: 10}, {0: 12}) == 0


def test_the_last_whole_event_of_the_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "application.log"
    log.write_text("")
    assert last_event(log) == {}
    log.write_text(LOG)
    assert last_event(log) == {"query": "starting-workers", "time": "t", "tasks": 2}


@pytest.mark.parametrize(
    ("event", "has_judged", "said"),
    [
        ({}, False, "the query is loading"),
        ({"query": "loading"}, False, "the query is loading"),
        ({"query": "starting-spark"}, False, "Spark starts"),
        ({"query": "started"}, False, "Spark runs, the first batch begins"),
        (
            {"query": "starting-workers", "tasks": 2},
            False,
            "Spark starts its Python workers for the first batch, tasks done: 2",
        ),
        ({"query": "kafka-back"}, False, "Spark runs, the first batch begins"),
        ({"query": "batch"}, False, "Spark runs, the first batch ends"),
        ({"query": "batch"}, True, ""),
        *(({"query": "kafka-away", "reason": "timed out"}, judged, KAFKA_AWAY) for judged in (False, True)),
        *(({"query": "ended", "line": "Kafka is gone"}, judged, ENDED) for judged in (False, True)),
        ({"query": "kafka-back"}, True, ""),
    ],
)
def test_each_stage_has_its_words(event: dict[str, object], has_judged: bool, said: str) -> None:
    assert stage(event, has_judged) == said


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


def test_what_moves_is_waited_for_however_slow_it_is() -> None:
    patience = Standstill(0.0, STALLED_SECONDS)
    for step in range(1, 20):
        now = step * (STALLED_SECONDS - 1)
        assert not patience.is_over(now)
        patience.observe(("frames", step), now)


def test_what_stands_still_is_given_up() -> None:
    patience = Standstill(0.0, STALLED_SECONDS)
    patience.observe("the same", 10.0)
    patience.observe("the same", STALLED_SECONDS)
    assert not patience.is_over(10.0 + STALLED_SECONDS)
    assert patience.is_over(10.1 + STALLED_SECONDS)


def test_a_note_says_for_how_long_nothing_has_moved() -> None:
    patience = Standstill(0.0, 300.0)
    assert patience.note(NOTED_SECONDS - 1) == ""
    assert patience.note(75.0) == "nothing has moved for 75 s, the demo gives up after 300 s"
