"""The Structured Streaming query: frames topic in, reports of buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from streaming.judging.report import Report
from streaming.query.first_batch import enter_first_batch
from streaming.query.identity_stage import REPORT_SCHEMA, STEPPED_SCHEMA, IdentityProcessor
from streaming.query.orphaned_offsets import sweep
from streaming.query.stages import INPUT_SCHEMA, BucketProcessor, decode_stage
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions
from streaming.settings.kafka_client import jvm_options
from streaming.settings.release import table_text

FETCH_WAIT = 20
"""Milliseconds that a fetch waits at the broker at most. Kafka's own 500 would be part of short batches."""
_REPORT = msgspec.msgpack.Decoder(Report)


class BatchError(Exception):
    """A batch failed, or was stopped; says all that Java said of it."""


def reports_of(
    session: SparkSession, configuration: Configuration, connections: StatefulProcessor | None = None
) -> DataFrame:
    """Plan the query: a row for each report. `connections` takes the place of the step of connections.

    Nothing runs yet and Kafka is not asked. Raises UserError when a secret cannot be found, or a decision
    names a rule or a reading that is none.
    """
    frames, table = read_frames(session, configuration), table_text(configuration.schemas)
    buckets = configuration.buckets
    inputs = frames.mapInArrow(decode_stage(buckets, table), INPUT_SCHEMA)
    terms = Decisions(configuration).terms
    resumed_at = session.sparkContext.startTime if configuration.after_loss else 0
    connections = connections or BucketProcessor(buckets, terms, table, resumed_at)
    stepped = _step(inputs, "bucket", connections, STEPPED_SCHEMA)
    return _step(stepped, "identities", IdentityProcessor(terms, table), REPORT_SCHEMA)


def start_query(
    reports: DataFrame, configuration: Configuration, take: Callable[[int, Iterator[Report]], None]
) -> Any:
    """Start the query and hand each batch's reports to `take(batch_id, reports)` in the driver.

    Gives Spark's StreamingQuery. `take` may be called again with a batch it has seen.
    """

    def take_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            rows = batch.collect()
        except Py4JJavaError as error:
            # By this error's own name Spark looks for its interruption, with a pattern that recurses for
            # each character: a query that is stopped amid a batch would end in a StackOverflowError.
            raise BatchError(str(error)) from None
        take(batch_id, (_REPORT.decode(bytes(row.report)) for row in rows))

    sweep(reports.sparkSession, configuration.checkpoint)
    enter_first_batch(reports.sparkSession, configuration.checkpoint)
    return (
        reports.writeStream.queryName("kipwatch")
        .outputMode("append")
        .option("checkpointLocation", configuration.checkpoint)
        .trigger(processingTime=f"{configuration.trigger_seconds} seconds")
        .foreachBatch(take_batch)
        .start()
    )


def _step(rows: DataFrame, key: str, processor: StatefulProcessor, schema: str) -> DataFrame:
    return rows.groupBy(key).transformWithState(
        statefulProcessor=processor,
        outputStructType=schema,
        outputMode="Append",
        timeMode="ProcessingTime",
    )


def read_frames(session: SparkSession, configuration: Configuration) -> DataFrame:
    """Read the frames topic as Kafka has it."""
    return (
        session.readStream.format("kafka")
        # A batch reads what is there: a fetch at the end of the topic must not wait for more.
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT)
        .options(**jvm_options(configuration.bootstrap, configuration.kafka))
        .option("subscribe", configuration.frames_topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not configuration.after_loss).lower())
        .option("maxOffsetsPerTrigger", configuration.frames_per_batch)
        .load()
        .select("key", "value", "topic", "partition", "offset")
    )
