"""The Structured Streaming query: frames topic in, reports of buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

from expectations.conversation.observation import ClusterDescription
from streaming.configuration import Configuration
from streaming.kafka_client import jvm_options
from streaming.query.bucket import Report
from streaming.query.identity_stage import REPORT_SCHEMA, STEPPED_SCHEMA, IdentityProcessor
from streaming.query.stages import FOLDED_SCHEMA, BucketProcessor, decode_stage
from streaming.release import table_text

_REPORT = msgspec.msgpack.Decoder(Report)


def reports_of(
    session: SparkSession, configuration: Configuration, connections: StatefulProcessor | None = None
) -> DataFrame:
    """Plan the query: a row for each report. `connections` takes the place of the step of connections.

    Nothing runs yet and nobody is asked. Raises UserError when a secret cannot be found.
    """
    frames, table = read_frames(session, configuration), table_text(configuration.schemas)
    folded = frames.mapInArrow(decode_stage(configuration.buckets, table), FOLDED_SCHEMA)
    listeners = {listener.address: listener.name for listener in configuration.listener if listener.name}
    brokers = {
        listener.address: ClusterDescription(listener.cluster_id, listener.node_id)
        for listener in configuration.listener
        if listener.cluster_id
    }
    resumed_at = session.sparkContext.startTime if configuration.after_loss else 0
    connections = connections or BucketProcessor(configuration.buckets, listeners, table, brokers, resumed_at)
    stepped = _step(folded, "bucket", connections, STEPPED_SCHEMA)
    return _step(stepped, "identities", IdentityProcessor(listeners, table), REPORT_SCHEMA)


def start_query(
    reports: DataFrame, configuration: Configuration, take: Callable[[int, Iterator[Report]], None]
) -> Any:
    """Start the query and hand each batch's reports to `take(batch_id, reports)` in the driver.

    Gives Spark's StreamingQuery. `take` may be called again with a batch it has seen.
    """

    def take_batch(batch: DataFrame, batch_id: int) -> None:
        take(batch_id, (_REPORT.decode(bytes(row.report)) for row in batch.collect()))

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
        .options(**jvm_options(configuration.bootstrap, configuration.kafka))
        .option("subscribe", configuration.frames_topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not configuration.after_loss).lower())
        .option("maxOffsetsPerTrigger", configuration.frames_per_batch)
        .load()
        .select("key", "value", "topic", "partition", "offset")
    )
