"""The first two stages of the query: decode and fold in Arrow batches, then step the buckets' state.

Both run in Spark's Python workers. Each worker process loads the schemas once.
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.frame.columnar.envelopes import unpack_columns
from decoders.schema.registry import schemas_of
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.window import ColumnarWindows
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from streaming.judging.bucket_input import Folded, pack_folded, unpack_folded
from streaming.judging.bucket_step import BucketStep
from streaming.judging.report import Report
from streaming.query.identity_stage import stepped_rows
from streaming.query.partition_keys import bucket_of_key, key_of_bucket
from streaming.query.value_state import StoredBytes
from streaming.query.worker import begin_task, end_task, kept
from streaming.state.bucket import Bucket
from streaming.state.bucket_layout import pack_bucket, unpack_bucket
from streaming.state.state_error import StateError

FOLDED_SCHEMA = "bucket int, folded binary"
SUMMARY_INTERVAL = 60_000
"""Milliseconds between two summaries of a bucket."""
TENTH = 100_000_000
"""Nanoseconds in a tenth of a second."""
UNREADABLE_RECORDS_BUCKET = 0
"""Where records that are no records are counted."""

_FOLDED = pa.schema([("bucket", pa.int32()), ("folded", pa.binary())])


def decode_stage(
    buckets: int, table: str | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`: Kafka records in, one row a bucket out.

    Input columns: key and value (binary), topic (string), partition (int32), offset (int64). Output
    columns: bucket (int32, its key) and folded (binary, a packed `Folded`). `table` is the text of the
    schemas to decode with, if not the committed ones.
    """

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in batches:
            yield _fold_batch(_columnar_windows(table), batch, buckets)
        end_task()

    return decode


def _fold_batch(windows: ColumnarWindows, batch: pa.RecordBatch, buckets: int) -> pa.RecordBatch:
    unpacked = unpack_columns(batch.column("key"), batch.column("value"))
    places = (batch.column(name) for name in ("topic", "partition", "offset"))
    arrival = Arrival.of_topic(unpacked, *places)
    by_bucket: dict[int, Folded] = {}
    sayings, briefs = windows.told_of(arrival)
    for brief in briefs:
        folded = by_bucket.setdefault(bucket_of(brief.speakers.connection, buckets), Folded())
        folded.briefs.append(brief)
        for moment in brief.moments:
            folded.sayings[moment.saying] = sayings[moment.saying]
    for folded in itertools.islice(by_bucket.values(), 1):
        folded.captured = _captured(arrival)
    if unpacked.unreadable:
        by_bucket.setdefault(UNREADABLE_RECORDS_BUCKET, Folded()).unreadable = unpacked.unreadable
    numbers = pa.array(map(key_of_bucket, by_bucket), pa.int32())
    rows = pa.array(map(pack_folded, by_bucket.values()), pa.binary())
    return pa.RecordBatch.from_arrays([numbers, rows], schema=_FOLDED)


def _captured(arrival: Arrival) -> dict[int, int]:
    captured_at = arrival.column(arrival.batch.frames.captured_at, "captured_at")
    tenths, counts = np.unique(captured_at[arrival.without_heartbeats()] // TENTH, return_counts=True)
    return dict(zip(tenths.tolist(), counts.tolist(), strict=True))


def bucket_of(connection: bytes, buckets: int) -> int:
    """Choose the bucket of a connection by its id."""
    return int.from_bytes(connection[:4]) % buckets


@functools.cache
def _columnar_windows(table: str | None) -> ColumnarWindows:
    """Give the one of a worker process: it remembers what it has read from batch to batch."""
    return ColumnarWindows(schemas_of(table))


class BucketProcessor(StatefulProcessor):
    """Steps the state of one bucket. Emits one report a step, and one a minute when idle.

    Claims go to one of `buckets` buckets of identities. `resumed_at`, in milliseconds, is given where frames
    were lost before this start of the query: connections known by then are taken as interrupted.
    """

    def __init__(
        self,
        buckets: int,
        terms: Terms,
        table: str | None = None,
        resumed_at: int = 0,
    ) -> None:
        self._buckets = buckets
        self._terms = terms
        self._table = table
        self._resumed_at = resumed_at
        self._name = uuid.uuid4().hex

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take hold of the state and of the timer."""
        begin_task()
        self._handle = handle
        self._standing = StoredBytes(handle, "bucket")
        self._contents = StoredBytes(handle, "contents")
        self._step = kept(self._name, self._make_step)

    def _make_step(self) -> BucketStep:
        names = schemas_of(self._table).api_names
        return BucketStep(Judge(names, self._terms), names, self._resumed_at)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Judge what a micro-batch brought for this bucket."""
        number = bucket_of_key(key[0])
        bucket = self._load(number)
        folded = [unpack_folded(row.folded) for row in rows]
        windows = [window for part in folded for window in part.windows()]
        report = self._step.hear(number, bucket, windows)
        for part in folded:
            for tenth, count in part.captured.items():
                report.captured[tenth] = report.captured.get(tenth, 0) + count
        unreadable = sum(part.unreadable for part in folded)
        if unreadable:
            report.undecodable["not-a-record"] = unreadable
        if not bucket.scheduled:
            now = timerValues.getCurrentProcessingTimeInMs()
            bucket.scheduled, bucket.republished_at = True, now
            # Else the buckets of a first batch would all have their turn in one batch of every minute.
            self._schedule(now - number * 997 % SUMMARY_INTERVAL)
        yield from self._store(bucket, report)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Row]:
        """Tell once a minute what is open, and do what time asks for."""
        number, now = bucket_of_key(key[0]), timerValues.getCurrentProcessingTimeInMs()
        bucket = self._load(number)
        report = self._step.tick(number, bucket, now)
        self._schedule(now)
        yield from self._store(bucket, report)

    def close(self) -> None:
        """End the task. Nothing is held beyond the state store."""
        end_task()

    def _schedule(self, now: int) -> None:
        self._handle.registerTimer(now + SUMMARY_INTERVAL)

    def _load(self, number: int) -> Bucket:
        bucket = unpack_bucket(self._standing.read(), self._contents.read)
        if bucket.buckets not in (0, self._buckets):
            raise StateError(
                f"the checkpoint was made with {bucket.buckets} buckets, not {self._buckets}: run with "
                f"--buckets {bucket.buckets}, or start with a new checkpoint folder"
            )
        bucket.buckets = self._buckets
        return bucket

    def _store(self, bucket: Bucket, report: Report) -> Iterator[Row]:
        packed = pack_bucket(bucket)
        self._standing.write(packed.standing)
        if packed.contents is not None:
            self._contents.write(packed.contents)
        report.state_bytes = packed.size
        return stepped_rows(report, self._buckets)
