"""The progress of the query, as the driver sees it: finished batches, health, readiness, waits for Kafka.

**Health** (/healthz). The query is in one of these states. A query that waits for Kafka is healthy: a
restart would gain nothing and cost time.

| state | while | healthy |
|---|---|---|
| starting | no batch is finished | for STARTED_AFTER |
| running | a batch was finished within STALLED_AFTER | yes |
| waiting | no batch finishes, and Kafka does not serve the frames topic | yes |
| stalled | no batch finishes, and Kafka has served the topic for STALLED_AFTER | no |

`ProgressListener` records finished batches, and `KafkaWatch` asks Kafka while none finishes. Until the first
frames are judged, `StartLog` logs the start, since Spark starts its Python workers in the first batches.
That can take minutes on a busy machine, and nothing else tells a slow start from one that hangs.

**Lag**: the blocks between what finished batches have read and the end of the topic now. Spark knows the end
from before a batch began, which a batch that reads everything always reaches. So `KafkaWatch` asks for it.

**Readiness** (/readyz): whether the gauges cover every connection. A bucket of connections that holds any
state has a timer. The timer survives a restart together with the state, and the bucket reports when it
expires. So the gauges are complete once a batch has begun more than one timer interval after the start.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from streaming.broker.cluster import ConnectionErrors
from streaming.log import QUERY_LOG
from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.batch_limit import BatchLimit
from streaming.query.worker import LONGEST_INTERVAL
from streaming.settings.kafka_client import Setting, admin_client

ABSENT = ("None", "null")
"""PySpark's text for an unknown offset."""
STALLED_AFTER = 60.0
"""Seconds without a finished batch, while Kafka answers, after which the application is unhealthy.

Shorter than the delay of the alert on a stalled query: a supervisor can restart it before that fires."""
STARTED_AFTER = 300.0
"""Seconds that the first batch may take: Spark starts in it, and it may read a long backlog."""
FIRST_BATCH = 0
"""The batch id of a query that has no earlier run to continue."""
LATE_AFTER = 10.0
"""Seconds without a finished batch after which Kafka is asked. An idle query finishes one each trigger."""
SET_BACK_BY = 5.0
"""Seconds by which the clock of the machine must be set back at once, to be worth a restart of the query."""
ASK_EVERY = 5.0
ANSWER_SECONDS = 5.0

Partition = tuple[str, int]
"""The topic and the number of a partition."""


class ProgressListener(StreamingQueryListener):
    """Sets the gauges of batch duration and topic lag.

    Spark calls it from a thread of its own, so it changes no other metrics.
    """

    def __init__(self, metrics: ApplicationMetrics, limit: BatchLimit) -> None:
        super().__init__()
        self._metrics, self._limit = metrics, limit
        self.latest_batch_at = 0.0
        """When the latest batch finished, in seconds of a monotonic clock; 0 before the first one."""
        self.has_advanced = False
        """Whether a finished batch has read any of the topic."""
        self.batch_seconds = 0.0
        """The sum of all batches' durations."""
        self.read_to: dict[Partition, int] = {}
        """Where the next batch begins in each partition; empty before the first batch."""

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: there is no batch yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Set the gauges after a finished batch."""
        progress = event.progress
        for source in progress.sources:
            if source.endOffset not in ABSENT:
                self.read_to = _offsets(source.endOffset)
                begun_at = {} if source.startOffset in ABSENT else _offsets(source.startOffset)
                self.has_advanced = self.has_advanced or self.read_to != begun_at
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        self._metrics.batch_duration.observe(seconds)
        self.batch_seconds += seconds
        self._record_progress()

    def onQueryIdle(self, event: Any) -> None:
        """Count a poll without new frames as a finished batch."""
        self._record_progress()

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: the application polls the query itself."""

    def show_lag(self, ends: Mapping[Partition, int]) -> None:
        """Set the gauge of the topic's lag, by the ends of its partitions; it is unknown without any."""
        blocks = sum(max(0, end - self.read_to.get(partition, 0)) for partition, end in ends.items())
        self._metrics.topic_lag.set(round(blocks * self._limit.frames_per_block) if ends else math.nan)

    def _record_progress(self) -> None:
        self.latest_batch_at = time.monotonic()
        self._metrics.last_batch_timestamp.set(time.time())


def _offsets(text: str) -> dict[Partition, int]:
    topics = json.loads(text)
    return {
        (topic, int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def is_healthy(started_at: float, latest_batch_at: float, kafka_away_at: float, now: float) -> bool:
    """Return whether the query makes progress, or waits for Kafka.

    Times are seconds of a monotonic clock, so that a step of the machine's clock hides nothing.
    `latest_batch_at` is when the latest batch finished, 0 before the first one, and `kafka_away_at` when
    Kafka was last seen not to answer, 0 if never.
    """
    if latest_batch_at:
        return now - max(latest_batch_at, kafka_away_at) < STALLED_AFTER
    return now - max(started_at, kafka_away_at) < STARTED_AFTER


class Readiness:
    """`is_ready` says whether the gauges cover every connection, or only those seen since a restart."""

    def __init__(self) -> None:
        self.is_ready = False
        self._due: float | None = None
        self._previous = 0.0

    def record_batch(self, batch_id: int, now: float) -> None:
        """Record that a batch was processed at `now`, in seconds of a monotonic clock.

        A batch begins after the previous one was processed.
        """
        if self._due is None:
            self._due = now + LONGEST_INTERVAL / 1000
            self.is_ready = batch_id == FIRST_BATCH
        elif self._previous >= self._due:
            self.is_ready = True
        self._previous = now


class ClockWatch:
    """Notices that the machine's clock was set back, beside a monotonic one.

    Spark waits for its next batch until the clock shows a time that it chose before, however long that takes.
    """

    def __init__(self) -> None:
        self._ahead = -math.inf

    def set_back(self, now: float, monotonic: float) -> float:
        """Return by how many seconds the clock was set back since the last call, 0 if it was not."""
        before, self._ahead = self._ahead, now - monotonic
        seconds = before - self._ahead
        return seconds if seconds >= SET_BACK_BY else 0.0


class StartLog:
    """Logs each change in the number of finished tasks, as long as it is polled."""

    def __init__(self, session: SparkSession) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._finished: dict[int, int] = {}
        self._logged = -1

    def poll(self) -> None:
        """Log the number of finished tasks if it has changed."""
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                # The count of a stage that has ended stays: Spark forgets it.
                self._finished[stage] = info.numCompletedTasks
        tasks = sum(self._finished.values())
        if self._finished and tasks != self._logged:
            self._logged = tasks
            QUERY_LOG.info("starting-workers", tasks=tasks)


class KafkaWatch:
    """Asks Kafka for the ends of the frames topic, and for its leaders if the query is late, while entered.

    `away_at` is when the query was last known to wait for Kafka, in seconds of a monotonic clock; 0 if never.
    `trouble` says why it waits now, "" if it does not.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        settings: Mapping[str, Setting],
        latest_batch_at: Callable[[], float],
        progress: ProgressListener,
    ) -> None:
        """`settings` is the table [kafka] of the configuration. Raises UserError if it is invalid."""
        self.away_at = 0.0
        self._topic, self._latest_batch_at, self._progress = topic, latest_batch_at, progress
        self._errors = ConnectionErrors(bootstrap, settings)
        self._admin = admin_client(bootstrap, settings, self._errors)
        self.trouble = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def record_wait(self) -> None:
        """Record that the query waits for Kafka now."""
        self.away_at = time.monotonic()

    def _run(self) -> None:
        while not self._closing.wait(ASK_EVERY):
            if self.trouble or time.monotonic() - self._latest_batch_at() > LATE_AFTER:
                self._ask()
            self._progress.show_lag(self._ends())

    def _ends(self) -> dict[Partition, int]:
        """Return the ends of the partitions that a batch has read, none if Kafka does not give them."""
        asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in self._progress.read_to}
        try:
            answers = self._admin.list_offsets(asked, request_timeout=ANSWER_SECONDS) if asked else {}
            return {(where.topic, where.partition): end.result().offset for where, end in answers.items()}
        except KafkaException:
            # The client knows of a partition that was added only after it has asked for the topic anew.
            with suppress(KafkaException):
                self._admin.list_topics(self._topic, ANSWER_SECONDS)
            return {}

    def _ask(self) -> None:
        before, self.trouble = self.trouble, self._trouble()
        if self.trouble:
            self.record_wait()
        if self.trouble and not before:
            QUERY_LOG.warning("kafka-away", reason=self.trouble)
        elif before and not self.trouble:
            QUERY_LOG.info("kafka-back")

    def _trouble(self) -> str:
        """Return why frames cannot be read, "" if they can. An unknown topic ends the query by itself."""
        topic = TopicCollection([self._topic])
        try:
            (answer,) = self._admin.describe_topics(topic, request_timeout=ANSWER_SECONDS).values()
            partitions = answer.result().partitions
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            is_unknown = cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            return "" if is_unknown else self._errors.explain(self._admin, error)
        leaderless = sorted(partition.id for partition in partitions if partition.leader is None)
        return f"partitions without a leader: {', '.join(map(str, leaderless))}" if leaderless else ""
