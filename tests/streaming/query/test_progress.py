"""Progress events in Spark's own JSON set the gauges of the engine."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryProgressEvent, StreamingQueryProgress

from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.batch_limit import BatchLimit
from streaming.query.progress import ProgressListener


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
    return {"kipwatch.frames": {name.removeprefix("p"): offset for name, offset in partitions.items()}}


def test_the_lag_is_the_frames_that_the_blocks_after_the_batch_may_hold(listening: Listening) -> None:
    """All blocks count of a partition that the batch has not begun, each as those of the batch."""
    listening.limit.follow(frames=250, blocks=100, read_to={})
    event = progress(source(offsets(p0=90, p1=50), offsets(p0=100, p1=50, p2=7)))
    listening.listener.onQueryProgress(event)
    assert listening.value("topic_lag_records") == round(17 * 2.5)


@pytest.mark.parametrize("absent", [None, "None"])
def test_the_lag_is_zero_unless_both_offsets_are_known(listening: Listening, absent: str | None) -> None:
    """PySpark turns a null of Java into text, in Spark Connect into another one than elsewhere."""
    known = offsets(p0=5)
    listening.listener.onQueryProgress(progress(source(absent, known), source(known, absent)))
    assert listening.value("topic_lag_records") == 0


def test_a_batch_sets_its_duration_and_end(listening: Listening) -> None:
    before = time.time()
    listening.listener.onQueryProgress(progress(source(offsets(p0=5), offsets(p0=5))))
    assert listening.value("batch_duration_seconds_sum") == 1.5
    ended = listening.value("last_batch_timestamp_seconds")
    assert ended is not None and before <= ended == listening.listener.latest_batch_at


def test_an_idle_query_makes_progress(listening: Listening) -> None:
    idle = QueryIdleEvent(
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000002",
        "2026-01-01T00:00:00.000Z",
    )
    before = time.time()
    listening.listener.onQueryIdle(idle)
    assert listening.listener.latest_batch_at >= before
    assert listening.value("last_batch_timestamp_seconds") == listening.listener.latest_batch_at
