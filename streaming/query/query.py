"""The Structured Streaming query: frames topic in, reports of buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from streaming.judging.report import Report, unpack_report
from streaming.query.batch_limit import BatchLimit
from streaming.query.blocks_ahead import BlocksAhead
from streaming.query.checkpoint import add_empty_batch, delete_orphaned_offsets
from streaming.query.identity_stage import REPORT_SCHEMA, IdentityProcessor
from streaming.query.moved_checkpoint import correct_schema_paths
from streaming.query.stages import INPUT_SCHEMA, BucketProcessor, decode_stage
from streaming.query.stepped import STEPPED_SCHEMA
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions
from streaming.settings.kafka_client import jvm_options
from streaming.settings.release import table_text

FETCH_WAIT = 20
"""Maximum milliseconds that a fetch waits at the broker. Kafka's default of 500 would delay short batches."""


class BatchError(Exception):
    """A batch failed or was stopped; the message is Java's."""


def reports_of(
    session: SparkSession, configuration: Configuration, connections: StatefulProcessor | None = None
) -> DataFrame:
    """Plan the query: one row per report. `connections` replaces the processor of connections.

    Runs nothing and opens no connection to Kafka. Raises UserError if a secret is missing, or if a decision
    names an unknown rule or reading.
    """
    limit = BatchLimit(configuration.frames_per_batch)
    frames = read_topic(session, configuration, limit.blocks).select("value", "topic", "partition", "offset")
    table = table_text(configuration.schemas)
    buckets = configuration.buckets
    terms = Decisions(configuration).terms
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

    `limit` follows the batches, of which `process` must read all reports. Returns Spark's StreamingQuery.
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

    delete_orphaned_offsets(session, configuration.checkpoint)
    correct_schema_paths(session, configuration.checkpoint)
    add_empty_batch(session, configuration.checkpoint)
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


def _step(rows: DataFrame, key: str, processor: StatefulProcessor, schema: str) -> DataFrame:
    return rows.groupBy(key).transformWithState(
        statefulProcessor=processor,
        outputStructType=schema,
        outputMode="Append",
        timeMode="ProcessingTime",
    )


def read_topic(session: SparkSession, configuration: Configuration, records_per_batch: int) -> DataFrame:
    """Return the records of the frames topic, with Spark's columns of Kafka records."""
    return (
        session.readStream.format("kafka")
        # A batch reads what is available: a fetch at the end of the topic must not wait for more.
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT)
        .options(**jvm_options(configuration.bootstrap, configuration.kafka))
        .option("subscribe", configuration.frames_topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not configuration.after_loss).lower())
        .option("maxOffsetsPerTrigger", records_per_batch)
        .load()
    )
