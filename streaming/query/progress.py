"""What Spark tells of each batch: how long it took and how far it is behind the topic."""

from __future__ import annotations

import json
import time
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from streaming.query.application_metrics import ApplicationMetrics

ABSENT = ("None", "null")
"""What PySpark writes for an offset that is not known: it puts a text even there."""


class ProgressListener(StreamingQueryListener):
    """Sets the gauges of the engine. Runs beside the query, so it only sets gauges."""

    def __init__(self, metrics: ApplicationMetrics) -> None:
        super().__init__()
        self._metrics = metrics
        self.latest_batch_at = 0.0

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to tell yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Tell of a batch that is finished."""
        progress = event.progress
        self._metrics.topic_lag.set(sum(_lag(source) for source in progress.sources))
        self._metrics.batch_duration.observe(progress.durationMs.get("triggerExecution", 0) / 1000)
        self._note_life()

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do is progress, too."""
        self._note_life()

    def onQueryTerminated(self, event: Any) -> None:
        """The application watches the query itself."""

    def _note_life(self) -> None:
        self.latest_batch_at = time.time()
        self._metrics.last_batch_timestamp.set(self.latest_batch_at)


def _lag(source: Any) -> int:
    """Records between where the batch ended and what the topic held when it began."""
    if source.endOffset in ABSENT or source.latestOffset in ABSENT:
        return 0
    ended, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
    return sum(max(0, offset - ended.get(partition, 0)) for partition, offset in latest.items())


def _offsets(text: str) -> dict[tuple[str, str], int]:
    topics = json.loads(text)
    return {
        (topic, partition): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
