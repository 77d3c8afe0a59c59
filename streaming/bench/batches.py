"""Runs streaming queries on a broker of the bench, and measures their micro-batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
from pyspark.sql.streaming import StatefulProcessor

from streaming.bench.traffic import Keyed, publish
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.judging.report import Report
from streaming.query.query import read_frames, reports_of, start_query
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

BATCH_SECONDS = 600.0
"""Time without a batch after which a bench fails."""
_EVERY_PROGRESS = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
_COLUMNS = "key binary, value binary, topic string, partition int, offset long"


class Batch(NamedTuple):
    """The number of records of a batch, and the seconds from trigger to commit."""

    records: int
    seconds: float


class Bench:
    """A broker, a Spark session and the queries that are measured on them; a context manager.

    `topics` holds the number of records written to each topic.
    """

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self._queries = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._broker = stack.enter_context(EmbeddedBroker())
            self._scratch = Path(stack.enter_context(TemporaryDirectory(prefix="kipwatch-bench-")))
            self.configuration = Configuration(bootstrap=self._broker.internal, spark=_EVERY_PROGRESS)
            self._session = stack.enter_context(spark_session(self.configuration))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def fill(self, topic: str, records: Iterator[Keyed]) -> int:
        """Write records to a topic, and return their number."""
        create_topics(self._broker.internal, topic, self.configuration.findings_topic)
        count = publish(self._broker.internal, topic, records)
        self.topics[topic] = self.topics.get(topic, 0) + count
        return count

    def monitor(
        self,
        topic: str,
        records: int,
        frames_per_batch: int,
        connections: StatefulProcessor | None = None,
        take: Callable[[int, Iterator[Report]], None] | None = None,
    ) -> list[Batch]:
        """Run the whole query on the first `records` of a topic; returns the batches with records."""
        configuration = self._with(topic, frames_per_batch)
        reports = reports_of(self._session, configuration, connections)
        return _run_until(start_query(reports, configuration, take or _exhaust), records)

    def bare(self, topic: str, records: int, frames_per_batch: int) -> list[Batch]:
        """Run a query that only passes the first `records` of a topic to Python and back."""

        # As a local function it is pickled by value; otherwise workers would import this module.
        def identity(batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches

        configuration = self._with(topic, frames_per_batch)
        rows = read_frames(self._session, configuration).mapInArrow(identity, _COLUMNS)
        writer = rows.writeStream.format("noop").option("checkpointLocation", configuration.checkpoint)
        return _run_until(writer.trigger(processingTime="1 seconds").start(), records)

    def _with(self, topic: str, frames_per_batch: int) -> Configuration:
        self._queries += 1
        return msgspec.structs.replace(
            self.configuration,
            frames_topic=topic,
            frames_per_batch=frames_per_batch,
            checkpoint=str(self._scratch / f"checkpoint-{self._queries}"),
        )


def _run_until(query: Any, records: int) -> list[Batch]:
    """Wait until a query has read `records`, stop it, and return its batches. Raises UserError."""
    deadline, seen = time.monotonic() + BATCH_SECONDS, 0
    while sum(batch.records for batch in _batches(query)) < records:
        if not query.isActive:
            raise UserError(f"the measured query ended: {query.exception()}")
        if len(query.recentProgress) > seen:
            deadline, seen = time.monotonic() + BATCH_SECONDS, len(query.recentProgress)
        if time.monotonic() > deadline:
            raise UserError(f"the measured query has had no batch for {BATCH_SECONDS:.0f} s")
        time.sleep(0.1)
    batches = _batches(query)
    query.stop()
    return batches


def _batches(query: Any) -> list[Batch]:
    progress = [json.loads(update.json) for update in query.recentProgress]
    return [
        Batch(update["numInputRows"], update["durationMs"]["triggerExecution"] / 1000)
        for update in progress
        if update["numInputRows"]
    ]


def _exhaust(_batch: int, reports: Iterator[Report]) -> None:
    for _ in reports:
        pass
