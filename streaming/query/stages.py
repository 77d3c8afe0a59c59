"""The three stages of the query, as Spark's Python workers run them.

1. `decode_stage` reads the blocks of an Arrow batch, folds their frames and divides them by bucket of
   connections.
2. `BucketProcessor` judges the connections of one bucket. Its state is the bucket.
3. `IdentityProcessor` judges the claims of all connections on one identity together. Its key is a bucket of
   identities, its state these identities. Reports of the second stage pass through it unchanged.

A bucket of the second stage has a timer from its first step on, since it reports about once a minute. A
bucket of the third stage has a timer for as long as it has state:

| what happens | bucket of connections | bucket of identities |
|---|---|---|
| first rows | sets a timer, within a minute | sets a timer, within a minute |
| further rows | judges, stores, reports | judges, stores, reports |
| the timer: a *tick* | reports, publishes findings again, sets the next | settles claims, sets the next |
| a tick without state | reports, sets the next | clears all that is stored |
| END_OF_TASK | emits the claims of all buckets of the task | |
"""

from __future__ import annotations

import functools
import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.frame.columnar.block_reading import BlockBatch, BlockReader
from decoders.retention import MILLISECOND
from decoders.schema.registry import schemas_of
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.identity.packed_claims import PackedClaims
from expectations.judging.automaton import Automaton
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from streaming.judging.bucket_input import (
    NO_BLOCK,
    BucketInput,
    Quarantine,
    Quarantined,
    by_bucket,
    pack_input,
    unpack_input,
)
from streaming.judging.report import TENTH, Report, pack_report
from streaming.judging.step import BucketStep, identity_report
from streaming.process import make_collections_rare
from streaming.query.stage_rows import (
    MOST_BYTES,
    TaskClaims,
    bucket_of_key,
    key_of_bucket,
    report_row,
    unpack_stepped,
)
from streaming.query.worker import (
    TICK_INTERVAL,
    StoredBytes,
    StoredPages,
    cached_in_worker,
    end_task,
    first_tick,
    next_tick,
)
from streaming.state import StateError
from streaming.state.bucket import Bucket, pack_bucket, unpack_bucket
from streaming.state.identities import StoredIdentities, unpack_identities

INPUT_SCHEMA = "bucket int, input binary"
REPORT_SCHEMA = "bucket int, report binary"
COUNTING_BUCKET = 0
"""The bucket that counts the blocks of a batch without frames."""
END_OF_TASK = 1
"""The due time, in milliseconds, of the timer that ends a task: long past, so it runs in the same batch."""

_INPUT = pa.schema([("bucket", pa.int32()), ("input", pa.binary())])


def decode_stage(
    buckets: int, table: str | None = None, terms: Terms | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`: blocks in, batches of one row per bucket out.

    Input columns: value (binary), topic (string), partition (int32), offset (int64). Output columns: bucket
    (int32, the bucket's key) and input (binary, a packed `BucketInput`). `table` is the text of the schemas
    to decode with, None for the committed ones; `terms` determine how identities are named.
    """
    terms = terms or Terms()
    keeps_values = terms.pseudonyms is None

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        make_collections_rare()
        windows, reader = _columnar_windows(table), _block_reader(table)
        quarantine = Quarantine(keeps_values=keeps_values)
        for batch in batches:
            places = [batch.column(name) for name in ("topic", "partition", "offset")]
            read_to = _read_to(*places[1:])
            for opened in reader.read(value.as_buffer() for value in batch.column("value")):
                arrival = Arrival.of_topic(opened, *places)
                inputs = by_bucket(terms.named(windows.columns_of(arrival)), buckets)
                refused = _quarantined(quarantine, opened, batch)
                _count_blocks(inputs, opened, arrival, read_to, refused)
                yield _packed(inputs)
        end_task()

    return decode


def _count_blocks(
    inputs: dict[int, BucketInput],
    opened: BlockBatch,
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


def _quarantined(quarantine: Quarantine, opened: BlockBatch, batch: pa.RecordBatch) -> list[Quarantined]:
    """Return the records of an Arrow batch that are not blocks and that the quarantine admits."""
    topics, partitions, offsets, values = map(batch.column, ("topic", "partition", "offset", "value"))
    admitted = (
        quarantine.admit(
            topics[row].as_py(), partitions[row].as_py(), offsets[row].as_py(), reason, values[row].as_py()
        )
        for row, reason in opened.refused.items()
    )
    return [record for record in admitted if record is not None]


def _captured(arrival: Arrival) -> dict[int, int]:
    captured_at = arrival.columns.captured_at[arrival.without_heartbeats()]
    tenths, counts = np.unique(captured_at // TENTH, return_counts=True)
    return dict(zip(tenths.tolist(), counts.tolist(), strict=True))


def _count(report: Report, part: BucketInput) -> None:
    """Add to a report the counts that one bucket carries for a whole batch of blocks."""
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
    return ColumnarWindows(schemas_of(table), secrets.token_bytes())


@functools.cache
def _block_reader(table: str | None) -> BlockReader:
    return BlockReader(schemas_of(table).digest)


class BucketProcessor(StatefulProcessor):
    """Judges the connections of one bucket. Emits one report per step and one per tick.

    Claims go to `buckets` buckets of identities, those of all buckets of a task together. Spark runs timers
    after it has passed all rows, so a timer that is due at once emits the claims. `resumed_at`, in
    milliseconds since the epoch, is not 0 if frames may have been lost before this start of the query: the
    connections known until then count as interrupted.
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
        make_collections_rare()
        self._handle = handle
        self._claims, self._has_end = TaskClaims(self._buckets), False
        self._bucket = StoredBytes(handle, "bucket")
        self._contents = StoredBytes(handle, "contents")
        self._step = cached_in_worker(self._name, self._make_step)

    def _make_step(self) -> BucketStep:
        schemas = schemas_of(self._table)
        judge = Judge(schemas.api_names, self._terms)
        automaton = Automaton(judge, secrets.token_bytes())
        return BucketStep(
            judge, schemas.by_key, self._resumed_at, counts_usage=self._counts_usage, automaton=automaton
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Judge the part of a micro-batch that concerns this bucket."""
        number = bucket_of_key(key[0])
        bucket = self._load(number)
        inputs = [unpack_input(row.input) for row in rows]
        report = self._step.process(number, bucket, [part.columns() for part in inputs])
        for part in inputs:
            _count(report, part)
        if not bucket.scheduled:
            now = timerValues.getCurrentProcessingTimeInMs()
            bucket.scheduled, bucket.republished_at = True, now
            self._handle.registerTimer(first_tick(number, now))
        yield from self._store(bucket, report)
        if self._claims.size > MOST_BYTES:
            yield from self._claims.rows()
        if self._claims.size and not self._has_end:
            self._has_end = True
            self._handle.registerTimer(END_OF_TASK)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Report open connections, publish findings again where due and drop silent connections."""
        if expiredTimerInfo.getExpiryTimeInMs() == END_OF_TASK:
            yield from self._claims.rows()
            return
        number, now = bucket_of_key(key[0]), timerValues.getCurrentProcessingTimeInMs()
        bucket = self._load(number)
        report = self._step.tick(number, bucket, now)
        self._handle.registerTimer(next_tick(number, now))
        yield from self._store(bucket, report)
        yield from self._claims.rows()

    def close(self) -> None:
        """End the task. All state is in the state store."""
        if self._claims.size:
            raise RuntimeError("Spark has not run a timer that was due: claims would be lost")
        end_task()

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
        report.claims = PackedClaims()
        yield report_row(report)


class IdentityProcessor(StatefulProcessor):
    """Judges the identities of one bucket, which ticks for as long as it has state.

    A claim is settled after one to two intervals between ticks.
    """

    tick_interval: ClassVar[int] = TICK_INTERVAL

    def __init__(self, terms: Terms, table: str | None = None) -> None:
        self._terms = terms
        self._table = table

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's state."""
        make_collections_rare()
        self._handle = handle
        self._index = StoredBytes(handle, "identities")
        self._pages = StoredPages(handle, "pages")
        names = schemas_of(self._table).api_names
        self._judge = IdentityJudge(names, self._terms)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Pass reports through and judge the claims."""
        parts: list[PackedClaims] = []
        for row in rows:
            stepped = unpack_stepped(row.stepped)
            parts.append(stepped.claims)
            if stepped.report is not None:
                yield Row(bucket=key[0], report=stepped.report)
        if claims := PackedClaims.joined(parts):
            yield self._process(bucket_of_key(key[0]), claims, timerValues.getCurrentProcessingTimeInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Judge settled claims, and clear the state of an empty bucket."""
        state = unpack_identities(self._index.read(), self._pages.read)
        now = timerValues.getCurrentProcessingTimeInMs()
        number = bucket_of_key(key[0])
        # A claim of a later time, from a host whose clock is wrong, must not make all others look silent.
        state.clock = min(state.clock, now * MILLISECOND)
        report = identity_report(number, self._judge.tick(state))
        if len(state):
            self._handle.registerTimer(next_tick(number, now, self.tick_interval))
            yield self._store(state, report)
        else:
            self._index.clear()
            self._pages.clear()
            yield _report_row(report)

    def close(self) -> None:
        """End the task. All state is in the state store."""
        end_task()

    def _process(self, number: int, claims: PackedClaims, now: int) -> Row:
        stored = self._index.read()
        if stored is None:
            self._handle.registerTimer(first_tick(number, now, self.tick_interval))
        state = unpack_identities(stored, self._pages.read)
        return self._store(state, identity_report(number, self._judge.process(state, claims)))

    def _store(self, state: StoredIdentities, report: Report) -> Row:
        packed = state.packed()
        self._index.write(packed.index)
        for number, page in packed.written.items():
            self._pages.write(number, page)
        for number in packed.removed:
            self._pages.remove(number)
        report.state_bytes = packed.size
        return _report_row(report)


def _report_row(report: Report) -> Row:
    return Row(bucket=report.bucket, report=pack_report(report))
