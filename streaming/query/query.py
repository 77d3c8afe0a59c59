"""The Structured Streaming query: frames topic in, reports of buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from streaming.configuration import Configuration
from streaming.query.bucket import Report
from streaming.query.stages import FOLDED_SCHEMA, REPORT_SCHEMA, BucketProcessor, decode_stage

_REPORT = msgspec.msgpack.Decoder(Report)


def start_query(
    session: SparkSession,
    configuration: Configuration,
    checkpoint: str,
    take: Callable[[int, Iterator[Report]], None],
) -> Any:
    """Start the query and hand each batch's reports to `take(batch_id, reports)` in the driver.

    Gives Spark's StreamingQuery. `take` may be called again with a batch it has seen.
    """
    frames = _read_frames(session, configuration)
    folded = frames.mapInArrow(decode_stage(configuration.buckets), FOLDED_SCHEMA)
    listeners = {listener.address: listener.name for listener in configuration.listener if listener.name}
    reports = folded.groupBy("bucket").transformWithState(
        statefulProcessor=BucketProcessor(listeners),
        outputStructType=REPORT_SCHEMA,
        outputMode="Append",
        timeMode="ProcessingTime",
    )

    def take_batch(batch: DataFrame, batch_id: int) -> None:
        take(batch_id, (_REPORT.decode(bytes(row.report)) for row in batch.collect()))

    return (
        reports.writeStream.queryName("kipwatch")
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{configuration.trigger_seconds} seconds")
        .foreachBatch(take_batch)
        .start()
    )


def _read_frames(session: SparkSession, configuration: Configuration) -> DataFrame:
    return (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", configuration.bootstrap)
        .option("subscribe", configuration.frames_topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .load()
        .select("key", "value", "topic", "partition", "offset")
    )
