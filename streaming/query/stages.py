"""The two stages of the query: decode and fold in Arrow batches, then step the buckets' state.

Both run in Spark's Python workers. Each worker process loads the schemas once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.frame.record import Record, RecordError, unpack
from decoders.schema.registry import default_schemas
from expectations.conversation.observation import ConnectionWindow, Evidence
from expectations.conversation.window import windows_of
from expectations.judge import Judge
from streaming.query.bucket import BucketStep, Report, pack_bucket, unpack_bucket

FOLDED_SCHEMA = "bucket int, folded binary"
REPORT_SCHEMA = "bucket int, report binary"
SUMMARY_INTERVAL = 60_000
"""Milliseconds between two summaries of a bucket."""
UNREADABLE_RECORDS_BUCKET = 0
"""Where records that are no records are counted."""

_FOLDED = pa.schema([("bucket", pa.int32()), ("folded", pa.binary())])


class Folded(msgspec.Struct):
    """What one Arrow batch says to one bucket. `unreadable` counts records that could not be unpacked."""

    windows: list[ConnectionWindow]
    unreadable: int = 0


_FOLDED_DECODER = msgspec.msgpack.Decoder(Folded)


def decode_stage(buckets: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`: Kafka records in, one row a bucket out.

    Input columns: key and value (binary), topic (string), partition (int32), offset (int64). Output
    columns: bucket (int32) and folded (binary, msgpack of `Folded`).
    """

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _fold_batch(batch, buckets)

    return decode


def _fold_batch(batch: pa.RecordBatch, buckets: int) -> pa.RecordBatch:
    records, unreadable = _read_records(batch)
    by_bucket: dict[int, Folded] = {}
    for window in windows_of(default_schemas(), records):
        bucket = bucket_of(window.connection, buckets)
        by_bucket.setdefault(bucket, Folded([])).windows.append(window)
    if unreadable:
        by_bucket.setdefault(UNREADABLE_RECORDS_BUCKET, Folded([])).unreadable = unreadable
    rows = [msgspec.msgpack.encode(folded) for folded in by_bucket.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(by_bucket.keys(), pa.int32()), pa.array(rows, pa.binary())], schema=_FOLDED
    )


def bucket_of(connection: bytes, buckets: int) -> int:
    """Choose the bucket of a connection by its id."""
    return int.from_bytes(connection[:4]) % buckets


def _read_records(batch: pa.RecordBatch) -> tuple[list[tuple[Record, Evidence]], int]:
    records: list[tuple[Record, Evidence]] = []
    unreadable = 0
    columns = (batch.column(name).to_pylist() for name in ("key", "value", "topic", "partition", "offset"))
    for key, value, topic, partition, offset in zip(*columns, strict=True):
        try:
            record = unpack(key or b"", value or b"")
        except RecordError:
            unreadable += 1
            continue
        records.append((record, Evidence.in_topic(topic, partition, offset, record)))
    return records, unreadable


class BucketProcessor(StatefulProcessor):
    """Steps the state of one bucket. Emits one report a step, and one a minute when idle."""

    def __init__(self, listeners: dict[str, str]) -> None:
        self._listeners = listeners

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take hold of the state and of the timer."""
        self._handle = handle
        self._stored = handle.getValueState("bucket", "state binary")
        names = default_schemas().api_names
        self._step = BucketStep(Judge(names, self._listeners), names)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Judge what a micro-batch brought for this bucket."""
        bucket = self._load()
        folded = [_FOLDED_DECODER.decode(row.folded) for row in rows]
        windows = [window for part in folded for window in part.windows]
        report = self._step.hear(key[0], bucket, windows)
        unreadable = sum(part.unreadable for part in folded)
        if unreadable:
            report.undecodable["not-a-record"] = unreadable
        if not bucket.scheduled:
            bucket.scheduled = True
            self._schedule(timerValues.getCurrentProcessingTimeInMs())
        yield self._store(bucket, report)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Row]:
        """Tell once a minute what is open, and do what time asks for."""
        now = timerValues.getCurrentProcessingTimeInMs()
        bucket = self._load()
        report = self._step.tick(key[0], bucket, now)
        self._schedule(now)
        yield self._store(bucket, report)

    def close(self) -> None:
        """Nothing is held beyond the state store."""

    def _schedule(self, now: int) -> None:
        self._handle.registerTimer(now + SUMMARY_INTERVAL)

    def _load(self) -> Any:
        stored = self._stored.get() if self._stored.exists() else None
        return unpack_bucket(bytes(stored[0]) if stored else None)

    def _store(self, bucket: Any, report: Report) -> Row:
        packed = pack_bucket(bucket)
        self._stored.update((packed,))
        report.state_bytes = len(packed)
        return Row(bucket=report.bucket, report=msgspec.msgpack.encode(report))
