"""Progress events in Spark's own JSON set the gauges of the engine.

Health means that the query makes progress; readiness means that the gauges cover every connection.
"""

from __future__ import annotations

import json
import math
import socket
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryProgressEvent, StreamingQueryProgress

from dashboards import alert
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.query import progress as progress_module
from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.batch_limit import BatchLimit
from streaming.query.progress import (
    STALLED_AFTER,
    STARTED_AFTER,
    ClockWatch,
    KafkaWatch,
    ProgressListener,
    Readiness,
    is_healthy,
)
from streaming.query.worker import LONGEST_INTERVAL
from tests.waiting import until

TOPIC = "kipwatch.frames"
PATIENCE = 60


def source(end: object, latest: object) -> dict[str, Any]:
    return {
        "description": "KafkaV2[Subscribe[kipwatch.frames]]",
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 10,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "metrics": {},
    }


def progress(*sources: dict[str, Any]) -> QueryProgressEvent:
    document = {
        "id": "00000000-0000-0000-0000-000000000001",
        "runId": "00000000-0000-0000-0000-000000000002",
        "name": "kipwatch",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 3,
        "batchDuration": 1500,
        "durationMs": {"triggerExecution": 1500},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1, "metrics": {}},
        "numInputRows": 10,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(json.loads(json.dumps(document))))


class Listening:
    """A listener and the gauges it sets."""

    def __init__(self) -> None:
        self._metrics = ApplicationMetrics([], version="0.1.0", kafka="4.4.0")
        self.limit = BatchLimit(1_000_000)
        self.listener = ProgressListener(self._metrics, self.limit)

    def value(self, name: str) -> float | None:
        return self._metrics.registry.get_sample_value(f"kipwatch_{name}")


@pytest.fixture
def listening() -> Listening:
    return Listening()


def offsets(**partitions: int) -> dict[str, dict[str, int]]:
    return {TOPIC: {name.removeprefix("p"): offset for name, offset in partitions.items()}}


def test_the_lag_is_the_frames_that_the_blocks_after_the_batch_may_hold(listening: Listening) -> None:
    """All blocks count of a partition that the batch has not begun, each as those of the batch."""
    listening.limit.follow(frames=250, blocks=100, read_to={})
    listening.listener.onQueryProgress(progress(source(offsets(p0=90, p1=50), offsets(p0=90, p1=50))))
    assert listening.listener.read_to == {(TOPIC, 0): 90, (TOPIC, 1): 50}
    listening.listener.show_lag({(TOPIC, 0): 100, (TOPIC, 1): 50, (TOPIC, 2): 7})
    assert listening.value("topic_lag_records") == round(17 * 2.5)


@pytest.mark.parametrize("absent", [None, "None"])
def test_the_lag_is_unknown_until_an_offset_is(listening: Listening, absent: str | None) -> None:
    """PySpark turns a null of Java into text, in Spark Connect into another one than elsewhere."""
    listening.listener.onQueryProgress(progress(source(absent, offsets(p0=5))))
    listening.listener.show_lag({})
    lag = listening.value("topic_lag_records")
    assert lag is not None and math.isnan(lag)


@pytest.mark.jvm
def test_the_lag_grows_while_a_batch_is_under_way(listening: Listening) -> None:
    """The end of the topic is asked for, not taken from when the batch began."""
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, TOPIC, "findings")
        producer = Producer({"bootstrap.servers": broker.internal})
        producer.produce(TOPIC, b"read", partition=0)
        producer.flush()
        listening.listener.onQueryProgress(progress(source(offsets(p0=1), offsets(p0=1))))
        watch = KafkaWatch(broker.internal, TOPIC, {}, time.monotonic, listening.listener)
        with watch:
            until(lambda: listening.value("topic_lag_records") == 0, PATIENCE)
            for _ in range(3):
                producer.produce(TOPIC, b"waits", partition=0)
            producer.flush()
            until(lambda: listening.value("topic_lag_records") == 3, PATIENCE)


@pytest.mark.jvm
def test_the_lag_is_known_again_soon_after_partitions_were_added(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka would not ask for them by itself for minutes, once it has seen that they have no leader."""
    monkeypatch.setattr(progress_module, "ASK_EVERY", 0.1)
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, TOPIC, "findings")
        admin = AdminClient({"bootstrap.servers": broker.internal})
        listening.listener.onQueryProgress(progress(source(offsets(p0=0, p1=0), None)))
        with KafkaWatch(broker.internal, TOPIC, {}, time.monotonic, listening.listener):
            until(lambda: listening.value("topic_lag_records") == 0, PATIENCE)
            listening.listener.onQueryProgress(progress(source(offsets(p0=0, p1=0, p2=0), None)))
            until(lambda: math.isnan(listening.value("topic_lag_records") or 0.0), PATIENCE)
            (added,) = admin.create_partitions([NewPartitions(TOPIC, 3)]).values()
            added.result()
            publish(broker.internal, partition=2)
            until(lambda: listening.value("topic_lag_records") == 1, PATIENCE)


def publish(bootstrap: str, partition: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, b"waits", partition=partition)
    producer.flush()


def test_a_broker_that_refuses_connections_is_named(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "ASK_EVERY", 0.1)
    monkeypatch.setattr(progress_module, "ANSWER_SECONDS", 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        watch = KafkaWatch(address, TOPIC, {}, lambda: 0.0, listening.listener)
        with watch:
            until(lambda: watch.trouble, PATIENCE)
    assert watch.trouble.startswith(f"cannot connect to {address} (Connection refused)")
    assert 0 < watch.away_at <= time.monotonic()


def test_a_batch_that_reads_nothing_does_not_advance(listening: Listening) -> None:
    """Spark does not write the partitions in one order."""
    resumed = source(offsets(p1=5, p0=7), offsets(p0=9, p1=5)) | {"startOffset": offsets(p0=7, p1=5)}
    listening.listener.onQueryProgress(progress(resumed))
    assert not listening.listener.has_advanced
    listening.listener.onQueryProgress(progress(resumed | {"endOffset": offsets(p0=9, p1=5)}))
    assert listening.listener.has_advanced


def test_a_batch_sets_its_duration_and_end(listening: Listening) -> None:
    """Health goes by a clock that nobody sets back; Prometheus compares the other one with its own."""
    before, before_by_the_calendar = time.monotonic(), time.time()
    listening.listener.onQueryProgress(progress(source(offsets(p0=5), offsets(p0=5))))
    assert listening.value("batch_duration_seconds_sum") == 1.5
    assert before <= listening.listener.latest_batch_at <= time.monotonic()
    ended = listening.value("last_batch_timestamp_seconds")
    assert ended is not None and before_by_the_calendar <= ended <= time.time()


def test_an_idle_query_makes_progress(listening: Listening) -> None:
    idle = QueryIdleEvent(
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000002",
        "2026-01-01T00:00:00.000Z",
    )
    before, before_by_the_calendar = time.monotonic(), time.time()
    listening.listener.onQueryIdle(idle)
    assert listening.listener.latest_batch_at >= before
    ended = listening.value("last_batch_timestamp_seconds")
    assert ended is not None and ended >= before_by_the_calendar


START, BATCH = 1000.0, 2000.0
TIMER = LONGEST_INTERVAL / 1000


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
    assert STALLED_AFTER < alert.STALLED_AFTER
    assert f"{STARTED_AFTER / 60 + 1:.0f}m" == alert.BEGUN_WITHIN


def test_a_clock_that_is_set_back_is_noticed_once() -> None:
    """A clock that is set ahead, or corrected little by little, delays no batch for long."""
    watch = ClockWatch()
    assert not watch.set_back(5000.0, 100.0)
    assert not watch.set_back(5000.1, 100.2)
    assert not watch.set_back(8600.3, 100.4)
    assert watch.set_back(5000.6, 100.6) == pytest.approx(3599.9)
    assert not watch.set_back(5000.8, 100.8)


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
