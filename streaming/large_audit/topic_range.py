"""The audit of a range of the frames topic, in Spark: any number of frames."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

import pandas
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from decoders.frame.columnar.block import BlockError
from decoders.frame.columnar.block_columns import read_columns
from decoders.schema.registry import schemas_of
from expectations.suites.frame_order import with_order
from expectations.suites.frame_table import COLUMNS, frame_table
from expectations.suites.frames import frames_suite
from expectations.suites.records import records_suite, records_table
from expectations.suites.validation import SuiteResult
from streaming.audit.audit import CLOCKS
from streaming.audit.frames_topic import GROUP, Placed, TopicSlice, demand_topic
from streaming.large_audit.chunked_audit import (
    PART_SCHEMA,
    ChunkedTable,
    audit_session,
    chunks_of,
    parted,
    validated,
)
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import jvm_options
from streaming.settings.release import table_text
from streaming.user_error import UserError

FRAMES_OF_A_PART: Final = 50_000
"""Frames that a task decodes before it passes them on."""
BLOCKS_OF_A_TASK: Final = 5_000
_COUNTS: Final = "blocks long, frames long"
_PAIRED: Final = "paired_sequence"
_WINDOW: Final = "window"
_RECORDS_OF_A_WINDOW: Final = 1 << 20
"""Records of a run. A connection is looked at window by window: one may have more frames than fit memory."""
_TOGETHER: Final = {"frames": ["connection", _WINDOW], "records": ["offset"]}
"""Columns that decide the chunk of a row: keys and the order of a connection need its rows in one."""


class Range(NamedTuple):
    """The times of publication to audit, `since` included and `until` not; None for no limit."""

    since: datetime | None = None
    until: datetime | None = None


def audit_range(configuration: Configuration, published: Range) -> list[SuiteResult]:
    """Validate the frames of a range of the topic, and the records they are in.

    Raises UserError if Spark cannot start, Kafka cannot be read, or there are no frames in the range.
    """
    # Spark would wait a minute for a broker that does not answer.
    demand_topic(configuration.bootstrap, configuration.frames_topic, configuration.kafka)
    text, latest = table_text(configuration.schemas), time.time_ns() + CLOCKS
    with audit_session(configuration) as session:
        records = _read(session, configuration, published)
        counted = records.mapInArrow(_counts, _COUNTS).groupBy().sum().collect()[0]
        blocks, frames = counted[0] or 0, counted[1] or 0
        if not frames:
            topic = configuration.frames_topic
            raise UserError(f"{topic} has no frames of kipwatch in this range, among {blocks} records")
        part = functools.partial(_parts, text, chunks_of(frames), chunks_of(blocks))
        parts = records.mapInArrow(part, PART_SCHEMA)
        return validated(parts, functools.partial(_tables, latest))


def _read(session: SparkSession, configuration: Configuration, published: Range) -> DataFrame:
    since, until = published
    reader = (
        session.read.format("kafka")
        .options(**jvm_options(configuration.bootstrap, configuration.kafka))
        .option("subscribe", configuration.frames_topic)
        .option("groupIdPrefix", GROUP)
        .option("maxRecordsPerPartition", BLOCKS_OF_A_TASK)
        # What the topic deletes meanwhile is not audited.
        .option("failOnDataLoss", "false")
        .option("startingOffsetsByTimestampStrategy", "latest")
    )
    if since is not None:
        reader = reader.option("startingTimestamp", _milliseconds(since))
    if until is not None:
        reader = reader.option("endingTimestamp", _milliseconds(until))
    return reader.load().select("partition", "offset", "value")


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    blocks = frames = 0
    for batch in batches:
        blocks += batch.num_rows
        frames += sum(_frames_in(value.as_buffer() or b"") for value in batch.column("value"))
    yield pa.RecordBatch.from_pydict({"blocks": [blocks], "frames": [frames]})


def _frames_in(value: pa.Buffer | bytes) -> int:
    try:
        return len(read_columns(value).values["kind"])
    except BlockError:
        return 0


def _parts(
    text: str | None, chunks: int, block_chunks: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    found = TopicSlice()
    for batch in batches:
        for place in zip(*(batch.column(name) for name in ("partition", "offset", "value")), strict=True):
            found.add(*(each.as_py() for each in place))
            if len(found.frames) >= FRAMES_OF_A_PART:
                yield from parted("frames", _frame_rows(text, found.frames), _TOGETHER["frames"], chunks)
                found.frames = []
    if found.frames:
        yield from parted("frames", _frame_rows(text, found.frames), _TOGETHER["frames"], chunks)
    if found.blocks:
        rows = pa.Table.from_pandas(records_table(found.blocks), preserve_index=False)
        yield from parted("records", rows, _TOGETHER["records"], block_chunks)


def _frame_rows(text: str | None, frames: list[Placed]) -> pa.Table:
    rows = frame_table(schemas_of(text), frames)
    paired = [record.paired_sequence for *_, record in frames]
    window = rows["sequence"] // _RECORDS_OF_A_WINDOW
    return pa.Table.from_pandas(rows.assign(**{_PAIRED: paired, _WINDOW: window}), preserve_index=False)


@functools.cache
def _tables(latest: int) -> dict[str, ChunkedTable]:
    return {
        "records": ChunkedTable(records_suite(), pa.Table.to_pandas),
        "frames": ChunkedTable(frames_suite(latest), _ordered),
    }


def _ordered(rows: pa.Table) -> pandas.DataFrame:
    frames = rows.sort_by([(name, "ascending") for name in ("partition", "offset", "row")]).to_pandas()
    return with_order(frames[list(COLUMNS)].astype(COLUMNS), frames[_PAIRED].tolist())
