"""Runs streaming queries on a broker of the bench, and measures their micro-batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import msgspec
from pyspark.sql.streaming import StatefulProcessor

from decoders.schema.registry import default_schemas
from decoders.wire.columnar.frames import FrameBatch
from streaming.archive.archive import Archive
from streaming.bench.traffic import publish_blocks, publish_records
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.judging.report import Report
from streaming.query.query import read_topic, reports_of, start_query
from streaming.query.session import INTERPRETED, spark_session
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

BATCH_SECONDS = 600.0
"""Time without a batch after which a bench fails."""
POLL_SECONDS = 0.25
_EVERY_PROGRESS = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
_COLUMNS = "key binary, value binary, topic string, partition int, offset long"


class MeasuredBatch(NamedTuple):
    """The number of frames of a batch, and the seconds from trigger to commit."""

    frames: int
    seconds: float


class Bench:
    """A broker, a Spark session and the queries that are measured on them; a context manager.

    `topics` holds the number of frames written to each topic.
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

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fill(self, topic: str, batches: Iterable[FrameBatch], *, plain: bool = False) -> int:
        """Write frames to a topic, in blocks or, `plain`, one a record; return their number."""
        create_topics(self._broker.internal, topic, self.configuration.findings_topic)
        count = (publish_records if plain else publish_blocks)(self._broker.internal, topic, batches)
        self.topics[topic] = self.topics.get(topic, 0) + count
        return count

    def monitor(
        self,
        topic: str,
        frames: int,
        frames_per_batch: int,
        connections: StatefulProcessor | None = None,
        take: Callable[[int, Sequence[Report]], None] | None = None,
        *,
        archives: bool = False,
    ) -> list[MeasuredBatch]:
        """Run the whole query on the first `frames` of a topic; returns the batches with frames.

        If it `archives`, each batch is written to an archive, as `run --archive` does.
        """
        configuration, counted = self._with(topic, frames_per_batch), dict[int, int]()
        archive: Archive | None = None
        if archives:
            configuration = msgspec.structs.replace(
                configuration, archive=f"{configuration.checkpoint}-archive"
            )
            archive = Archive(configuration.archive, default_schemas().api_names)

        def process(batch: int, reports: Iterator[Report]) -> None:
            found = list(reports)
            counted[batch] = sum(sum(report.captured.values()) for report in found)
            if archive:
                archive.write("bench", batch, found)
            if take:
                take(batch, found)

        reports = reports_of(self._session, configuration, connections)
        return _run_until(start_query(reports, configuration, process), frames, counted)

    def bare(self, topic: str, records: int, records_per_batch: int) -> list[MeasuredBatch]:
        """Run a query that only passes the first `records` of a topic, a frame each, to Python and back.

        Spark generates code for it, as it does by default: its rows are many and small.
        """

        # As a local function it is pickled by value; otherwise workers would import this module.
        def identity(batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches

        configuration = self._with(topic, records_per_batch)
        read = read_topic(self._session, configuration, records_per_batch)
        rows = read.select("key", "value", "topic", "partition", "offset").mapInArrow(identity, _COLUMNS)
        writer = rows.writeStream.format("noop").option("checkpointLocation", configuration.checkpoint)
        for name in INTERPRETED:
            self._session.conf.unset(name)
        try:
            return _run_until(writer.trigger(processingTime="1 seconds").start(), records)
        finally:
            for name, value in INTERPRETED.items():
                self._session.conf.set(name, value)

    def _with(self, topic: str, frames_per_batch: int) -> Configuration:
        self._queries += 1
        return msgspec.structs.replace(
            self.configuration,
            frames_topic=topic,
            frames_per_batch=frames_per_batch,
            checkpoint=str(self._scratch / f"checkpoint-{self._queries}"),
        )


def _run_until(query: Any, frames: int, counted: Mapping[int, int] | None = None) -> list[MeasuredBatch]:
    """Wait until a query has read `frames`, stop it, and return its batches. Raises UserError.

    `counted` holds the frames of each batch; without it a record is a frame.
    """
    deadline, seen = time.monotonic() + BATCH_SECONDS, -1
    batches: list[MeasuredBatch] = []
    while sum(batch.frames for batch in batches) < frames:
        if not query.isActive:
            raise UserError(f"the measured query ended: {query.exception()}")
        # All progress is read after a batch alone: each of its items takes several calls of the JVM.
        latest = query.lastProgress
        if latest is not None and latest.batchId != seen:
            deadline, seen = time.monotonic() + BATCH_SECONDS, latest.batchId
            batches = _batches(query, counted)
        if time.monotonic() > deadline:
            raise UserError(f"the measured query has had no batch for {BATCH_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    query.stop()
    return batches


def _batches(query: Any, counted: Mapping[int, int] | None) -> list[MeasuredBatch]:
    progress = [json.loads(update.json) for update in query.recentProgress]
    return [
        MeasuredBatch(
            update["numInputRows"] if counted is None else counted[update["batchId"]],
            update["durationMs"]["triggerExecution"] / 1000,
        )
        for update in progress
        if update["numInputRows"]
    ]
