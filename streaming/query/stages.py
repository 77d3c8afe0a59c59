"""The first two stages of the query: decode and fold Arrow batches, then judge them by bucket.

Both run in Spark's Python workers. Each worker process loads the schemas once.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.frame.columnar.block_reading import BlockReader, Opened
from decoders.schema.registry import schemas_of
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.columnar.windows import ColumnarWindows
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from streaming.judging.bucket_input import BucketInput, by_bucket, pack_input, unpack_input
from streaming.judging.bucket_step import BucketStep
from streaming.judging.quarantine import NO_BLOCK, Quarantine, Quarantined
from streaming.judging.report import Report
from streaming.query.partition_keys import bucket_of_key, key_of_bucket
from streaming.query.stepped import MOST_BYTES, TaskClaims, report_row
from streaming.query.value_state import StoredBytes
from streaming.query.worker import begin_task, cached_in_worker, end_task
from streaming.state.bucket import Bucket
from streaming.state.bucket_layout import pack_bucket, unpack_bucket
from streaming.state.state_error import StateError

INPUT_SCHEMA = "bucket int, input binary"
SUMMARY_INTERVAL = 60_000
"""Milliseconds between two summaries of a bucket."""
TENTH = 100_000_000
"""Nanoseconds in a tenth of a second."""
COUNTING_BUCKET = 0
"""The bucket that counts what was read from the topic."""
END_OF_TASK = 1
"""When the timer that ends a task is due, in milliseconds: long ago, so Spark runs it in the same batch."""

_INPUT = pa.schema([("bucket", pa.int32()), ("input", pa.binary())])


def decode_stage(
    buckets: int, table: str | None = None, terms: Terms | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`: blocks in, batches of one row per bucket out.

    Input columns: value (binary), topic (string), partition (int32), offset (int64). Output columns: bucket
    (int32, the bucket's key) and input (binary, a packed `BucketInput`). `table` is the text of the schemas
    to decode with, None for the committed ones, `terms` say how identities are named.
    """
    terms = terms or Terms()
    keeps_values = terms.pseudonyms is None

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        windows, reader = _columnar_windows(table), _block_reader()
        quarantine = Quarantine(keeps_values=keeps_values)
        for batch in batches:
            places = [batch.column(name) for name in ("topic", "partition", "offset")]
            read_to = _read_to(*places[1:])
            for opened in reader.read(value.as_buffer() for value in batch.column("value")):
                arrival = Arrival.of_topic(opened, *places)
                inputs = by_bucket(_named(windows.columns_of(arrival), terms), buckets)
                refused = _quarantined(quarantine, opened, batch)
                _count_blocks(inputs, opened, arrival, read_to, refused)
                yield _packed(inputs)
        end_task()

    return decode


def _named(columns: WindowColumns, terms: Terms) -> WindowColumns:
    """Return windows with the names of identities by which they are judged."""
    if terms.pseudonyms is None:
        return columns
    return WindowColumns.of(terms.named(columns.windows()))


def _count_blocks(
    inputs: dict[int, BucketInput],
    opened: Opened,
    arrival: Arrival,
    read_to: dict[int, int],
    quarantined: list[Quarantined],
) -> None:
    """Let one of the buckets count what was read from the topic."""
    if opened.size:
        counting = next(iter(inputs.values()), None) or inputs.setdefault(COUNTING_BUCKET, BucketInput())
        counting.captured, counting.blocks, counting.read_to = _captured(arrival), opened.size, read_to
        counting.unreadable = len(opened.refused)
        counting.refusal = next(reversed(opened.refused.values()), "")
        counting.quarantined = quarantined


def _packed(inputs: dict[int, BucketInput]) -> pa.RecordBatch:
    keys = pa.array(map(key_of_bucket, inputs), pa.int32())
    rows = pa.array(map(pack_input, inputs.values()), pa.binary())
    return pa.RecordBatch.from_arrays([keys, rows], schema=_INPUT)


def _read_to(partitions: pa.Array, offsets: pa.Array) -> dict[int, int]:
    """Return the offset behind the last block of each partition."""
    numbers, places = partitions.to_numpy(), offsets.to_numpy()
    return {int(number): int(places[numbers == number].max()) + 1 for number in np.unique(numbers)}


def _quarantined(quarantine: Quarantine, opened: Opened, batch: pa.RecordBatch) -> list[Quarantined]:
    """Return those records of an Arrow batch which are no blocks, as far as they are passed on."""
    topics, partitions, offsets, values = map(batch.column, ("topic", "partition", "offset", "value"))
    admitted = (
        quarantine.admit(
            topics[row].as_py(), partitions[row].as_py(), offsets[row].as_py(), reason, values[row].as_py()
        )
        for row, reason in opened.refused.items()
    )
    return [record for record in admitted if record is not None]


def _captured(arrival: Arrival) -> dict[int, int]:
    captured_at = arrival.column(arrival.batch.frames.captured_at, "captured_at")
    tenths, counts = np.unique(captured_at[arrival.without_heartbeats()] // TENTH, return_counts=True)
    return dict(zip(tenths.tolist(), counts.tolist(), strict=True))


def _count(report: Report, part: BucketInput) -> None:
    """Add what concerns a whole batch of blocks."""
    for tenth, count in part.captured.items():
        report.captured[tenth] = report.captured.get(tenth, 0) + count
    report.blocks += part.blocks
    for partition, offset in part.read_to.items():
        report.read_to[partition] = max(offset, report.read_to.get(partition, 0))
    if part.unreadable:
        refused = report.undecodable.get(NO_BLOCK, 0)
        report.undecodable[NO_BLOCK] = refused + part.unreadable
        report.refusal = part.refusal
        report.quarantined += part.quarantined


@functools.cache
def _columnar_windows(table: str | None) -> ColumnarWindows:
    """Return the worker's instance, so that its caches survive from batch to batch."""
    return ColumnarWindows(schemas_of(table))


@functools.cache
def _block_reader() -> BlockReader:
    return BlockReader()


class BucketProcessor(StatefulProcessor):
    """Judges the connections of one bucket. Emits one report per step, and one per minute when idle.

    Claims go to one of `buckets` buckets of identities, those of all buckets of a task together. Spark runs
    timers after it has passed all rows, so claims are emitted by a timer that is due at once. `resumed_at`,
    in milliseconds, is given if frames were lost before this start of the query: connections known by then
    count as interrupted.
    """

    def __init__(
        self,
        buckets: int,
        terms: Terms,
        table: str | None = None,
        resumed_at: int = 0,
        *,
        counts_usage: bool = False,
    ) -> None:
        self._counts_usage = counts_usage
        self._buckets = buckets
        self._terms = terms
        self._table = table
        self._resumed_at = resumed_at
        self._name = uuid.uuid4().hex

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's state."""
        begin_task()
        self._handle = handle
        self._claims, self._has_end = TaskClaims(self._buckets), False
        self._bucket = StoredBytes(handle, "bucket")
        self._contents = StoredBytes(handle, "contents")
        self._step = cached_in_worker(self._name, self._make_step)

    def _make_step(self) -> BucketStep:
        names = schemas_of(self._table).api_names
        judge = Judge(names, self._terms)
        return BucketStep(judge, names, self._resumed_at, counts_usage=self._counts_usage)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Judge the part of a micro-batch that concerns this bucket."""
        number = bucket_of_key(key[0])
        bucket = self._load(number)
        inputs = [unpack_input(row.input) for row in rows]
        report = self._step.process_columns(number, bucket, [part.columns() for part in inputs])
        for part in inputs:
            _count(report, part)
        if not bucket.scheduled:
            now = timerValues.getCurrentProcessingTimeInMs()
            bucket.scheduled, bucket.republished_at = True, now
            # Spread over the minute: otherwise all buckets of a first batch would expire in one batch.
            self._schedule(now - number * 997 % SUMMARY_INTERVAL)
        yield from self._store(bucket, report)
        if self._claims.size > MOST_BYTES:
            yield from self._claims.rows()
        if self._claims.size and not self._has_end:
            self._has_end = True
            self._handle.registerTimer(END_OF_TASK)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[Row]:
        """Report open connections, publish findings again where due and drop silent connections."""
        if expiredTimerInfo.getExpiryTimeInMs() == END_OF_TASK:
            yield from self._claims.rows()
            return
        number, now = bucket_of_key(key[0]), timerValues.getCurrentProcessingTimeInMs()
        bucket = self._load(number)
        report = self._step.tick(number, bucket, now)
        self._schedule(now)
        yield from self._store(bucket, report)
        yield from self._claims.rows()

    def close(self) -> None:
        """End the task. All state is in the state store."""
        if self._claims.size:
            raise RuntimeError("Spark has not run a timer that was due: claims would be lost")
        end_task()

    def _schedule(self, now: int) -> None:
        self._handle.registerTimer(now + SUMMARY_INTERVAL)

    def _load(self, number: int) -> Bucket:
        bucket = unpack_bucket(self._bucket.read(), self._contents.read)
        if bucket.buckets not in (0, self._buckets):
            raise StateError(
                f"the checkpoint was made with {bucket.buckets} buckets, not {self._buckets}: run with "
                f"--buckets {bucket.buckets}, or start with a new checkpoint folder"
            )
        bucket.buckets = self._buckets
        return bucket

    def _store(self, bucket: Bucket, report: Report) -> Iterator[Row]:
        """Store the bucket, yield its report, and keep its claims."""
        packed = pack_bucket(bucket)
        self._bucket.write(packed.bucket)
        if packed.contents is not None:
            self._contents.write(packed.contents)
        report.state_bytes = packed.size
        self._claims.add(report.claims)
        report.claims = []
        yield report_row(report)
