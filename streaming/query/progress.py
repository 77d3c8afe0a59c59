"""The listener for Spark's progress events: sets the gauges of batch duration and topic lag."""

from __future__ import annotations

import json
import time
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.batch_limit import BatchLimit

ABSENT = ("None", "null")
"""PySpark's text for an unknown offset."""


class ProgressListener(StreamingQueryListener):
    """Sets gauges of the engine. Spark calls it from a thread of its own, so it changes nothing else."""

    def __init__(self, metrics: ApplicationMetrics, limit: BatchLimit) -> None:
        super().__init__()
        self._metrics, self._limit = metrics, limit
        self.latest_batch_at = 0.0
        self.batch_seconds = 0.0
        """How long all batches have taken together."""

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: there is no batch yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Set the gauges after a finished batch."""
        progress = event.progress
        blocks = sum(_lag(source) for source in progress.sources)
        self._metrics.topic_lag.set(round(blocks * self._limit.frames_per_block))
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        self._metrics.batch_duration.observe(seconds)
        self.batch_seconds += seconds
        self._record_progress()

    def onQueryIdle(self, event: Any) -> None:
        """Count a poll without new frames as progress, too."""
        self._record_progress()

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: the application polls the query itself."""

    def _record_progress(self) -> None:
        self.latest_batch_at = time.time()
        self._metrics.last_batch_timestamp.set(self.latest_batch_at)


def _lag(source: Any) -> int:
    """Count the blocks between the end of the batch and the end of the topic when the batch began."""
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
