"""The Structured Streaming query: frames topic in, reports of buckets out.

`reports_of` plans the query, `start_query` runs it and hands the reports of each batch to the application, in
the driver. `BatchReports` reads them one by one, so that the findings of all reports are never in memory
together: clients decide how many findings a batch has, and a million decoded ones take gigabytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from expectations.judging.finding import Finding
from expectations.judging.terms import Terms
from streaming.judging.report import Report, pack_report, unpack_report
from streaming.query.batch_limit import BatchLimit, BlocksAhead
from streaming.query.checkpoint import prepare_checkpoint
from streaming.query.session import spark_session
from streaming.query.stage_rows import STEPPED_SCHEMA
from streaming.query.stages import (
    INPUT_SCHEMA,
    REPORT_SCHEMA,
    BucketProcessor,
    IdentityProcessor,
    decode_stage,
)
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions
from streaming.settings.kafka_client import jvm_options
from streaming.settings.release import table_text

FETCH_WAIT = 20
"""Maximum milliseconds that a fetch waits at the broker. Kafka's default of 500 would delay short batches."""


class BatchError(Exception):
    """A batch failed or was stopped; the message is Java's."""


def reports_of(
    session: SparkSession,
    configuration: Configuration,
    connections: StatefulProcessor | None = None,
    terms: Terms | None = None,
    *,
    skips_lost: bool = False,
) -> DataFrame:
    """Plan the query: one row per report. `connections` replaces the processor of connections.

    Without `terms` they are made of the configuration. With `skips_lost` the query continues behind frames
    that the topic has lost, otherwise it ends there.

    Runs nothing and opens no connection to Kafka. Raises UserError if a secret is missing, or if a decision
    names an unknown rule or reading.
    """
    limit = BatchLimit(configuration.frames_per_batch)
    topic = read_topic(session, configuration, limit.blocks, skips_lost=skips_lost)
    frames = topic.select("value", "topic", "partition", "offset")
    table = table_text(configuration.schemas)
    buckets = configuration.buckets
    terms = terms or Decisions(configuration).terms
    inputs = frames.mapInArrow(decode_stage(buckets, table, terms), INPUT_SCHEMA)
    resumed_at = session.sparkContext.startTime if configuration.after_loss else 0
    connections = connections or BucketProcessor(
        buckets, terms, table, resumed_at, counts_usage=bool(configuration.archive)
    )
    stepped = _step(inputs, "bucket", connections, STEPPED_SCHEMA)
    return _step(stepped, "identities", IdentityProcessor(terms, table), REPORT_SCHEMA)


def start_query(
    reports: DataFrame,
    configuration: Configuration,
    process: Callable[[int, Iterator[Report]], None],
    limit: BatchLimit | None = None,
) -> Any:
    """Start the query and call `process(batch_id, reports)` in the driver for each batch.

    `limit` follows the batches; `process` must read all their reports. Returns Spark's StreamingQuery.
    Spark may repeat the latest batch: `process` is then called again.
    """
    limit, session = limit or BatchLimit(configuration.frames_per_batch), reports.sparkSession
    ahead = BlocksAhead(
        limit,
        configuration.frames_per_batch,
        configuration.bootstrap,
        configuration.frames_topic,
        configuration.kafka,
    )

    def process_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            rows = batch.collect()
        except Py4JJavaError as error:
            # Spark searches the text of a Py4JJavaError for signs of an interruption, with a pattern that
            # recurses for each character: stopping a query amid a batch would cause a StackOverflowError.
            raise BatchError(str(error)) from None
        process(batch_id, limit.followed(unpack_report(bytes(row.report)) for row in rows))
        ahead.fit()
        # The session has one query, which is active before its first batch.
        limit.apply(session.streams.active[0], session)

    prepare_checkpoint(session, configuration.checkpoint)
    query = (
        reports.writeStream.queryName("kipwatch")
        .outputMode("append")
        .option("checkpointLocation", configuration.checkpoint)
        .trigger(processingTime=f"{configuration.trigger_seconds} seconds")
        .foreachBatch(process_batch)
        .start()
    )
    ahead.start(lambda: bool(query.isActive), lambda: limit.apply(query, session))
    return query


def ended_because(query: Any, session: SparkSession) -> str:
    """Return Spark's text on why a query has ended, "" if it was stopped.

    It has the trace of each cause. PySpark's exception has the messages without the classes.
    """
    error, jvm = query._jsq.exception(), session.sparkContext._jvm
    return str(jvm.org.apache.spark.util.Utils.exceptionString(error.get())) if error.isDefined() else ""


def _step(rows: DataFrame, key: str, processor: StatefulProcessor, schema: str) -> DataFrame:
    return rows.groupBy(key).transformWithState(
        statefulProcessor=processor,
        outputStructType=schema,
        outputMode="Append",
        timeMode="ProcessingTime",
    )


def read_topic(
    session: SparkSession, configuration: Configuration, records_per_batch: int, *, skips_lost: bool = False
) -> DataFrame:
    """Return the records of the frames topic, with Spark's columns of Kafka records."""
    return (
        session.readStream.format("kafka")
        # A batch reads what is available: a fetch at the end of the topic must not wait for more.
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT)
        .options(**jvm_options(configuration.bootstrap, configuration.kafka))
        .option("subscribe", configuration.frames_topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not skips_lost).lower())
        .option("maxOffsetsPerTrigger", records_per_batch)
        .load()
    )


class BatchReports:
    """The reports of a batch. `findings` must be read to the end before `reports`, which keep none."""

    def __init__(self, reports: Iterable[Report], *, keeps_findings: bool = False, sampled: int = 0) -> None:
        """`reports` are unpacked one by one. `sample` gets up to `sampled` findings, drawn from all.

        With `keeps_findings`, `kept_findings` yields all findings again.
        """
        self._unread = reports
        self._keeps_findings = keeps_findings
        self._kept: list[bytes] = []
        self.reports: list[Report] = []
        self.found = 0
        self.sample: list[Finding] = []
        self._sampled = sampled

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of each report, and count them in `found`."""
        for report in self._unread:
            if self._sampled:
                self._draw(report.findings)
            self.found += len(report.findings)
            yield from report.findings
            if self._keeps_findings and report.findings:
                self._kept.append(pack_report(Report(report.bucket, report.findings)))
            report.findings = []
            self.reports.append(report)

    def _draw(self, findings: Sequence[Finding]) -> None:
        """Draw findings so that each of the batch has the same chance: reservoir sampling."""
        for number, finding in enumerate(findings, self.found):
            if number < self._sampled:
                self.sample.append(finding)
            elif (place := random.randrange(number + 1)) < self._sampled:
                self.sample[place] = finding

    def kept_findings(self) -> Iterator[Finding]:
        """Yield all findings again. They were kept packed, and are unpacked for one report at a time."""
        for packed in self._kept:
            yield from unpack_report(packed).findings

    @property
    def frames(self) -> int:
        """The number of frames that were judged."""
        return sum(sum(kinds.values()) for report in self.reports for kinds in report.frames.values())

    @property
    def undecodable(self) -> int:
        """The number of frames among them that could not be decoded."""
        return sum(sum(report.undecodable.values()) for report in self.reports)


def show_plan(configuration: Configuration) -> None:
    """Print the effective configuration and Spark's plan of the query, for `kipwatch run --dry-run`.

    Opens no connection to Kafka and writes nothing. No secret is printed: a configuration holds only
    references to secrets, and Spark redacts its plan.
    """
    print(msgspec.json.format(msgspec.json.encode(configuration), indent=2).decode())
    with spark_session(configuration) as session:
        reports_of(session, configuration).explain("formatted")
