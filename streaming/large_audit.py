"""Audits of any size, in Spark: a range of the frames topic, or an archive too large for one process.

Both divide the rows of each table into chunks that fit into the memory of a task. A chunk has all rows that
expectations look at together, such as those of a connection. Great Expectations validates each chunk, and
the results are merged by expectation. The suites are those of `streaming/audit`.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.dataset as ds
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from decoders.frame.columnar.block import BlockError, read_columns
from decoders.schema.registry import schemas_of
from expectations.suites.frame_table import COLUMNS, frame_table, with_order
from expectations.suites.frames import frames_suite, records_suite, records_table
from expectations.suites.suite import (
    ChunkOutcome,
    Suite,
    SuiteResult,
    chunk_numbers,
    merged,
    rows_together,
    validate_chunk,
)
from streaming.archive.batch_files import readable
from streaming.audit.audit import (
    AUDITED,
    CLOCKS,
    AuditedArchive,
    Days,
    opened,
    policies_of,
    rows_of_file,
    suites_at,
    with_neighbours,
)
from streaming.audit.frames_topic import GROUP, Placed, TopicSlice, demand_topic
from streaming.query.exit_reason import explain
from streaming.query.session import LOCAL, spark_session
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import jvm_options
from streaming.settings.release import table_text
from streaming.user_error import UserError

CHUNK_ROWS: Final = 250_000
"""Approximate number of rows in a chunk: a task holds them in memory."""
PART_SCHEMA: Final = "suite string, chunk int, part binary"
"""A part of a chunk: some of its rows as an Arrow stream."""
_OUTCOMES: Final = "suite string, id string, success boolean, rows long, considered long, unexpected long"
_PARTS: Final = pa.schema([("suite", pa.string()), ("chunk", pa.int32()), ("part", pa.binary())])
FRAMES_OF_A_PART: Final = 50_000
"""Frames that a task decodes before it passes them on."""
BLOCKS_OF_A_TASK: Final = 5_000
_COUNTS: Final = "blocks long, frames long"
_PAIRED: Final = "paired_sequence"
_WINDOW: Final = "window"
_RECORDS_OF_A_WINDOW: Final = 1 << 20
"""Records of a run. Connections are divided into windows: one may have more frames than fit into memory."""
_TOGETHER: Final = {"frames": ["connection", _WINDOW], "records": ["offset"]}
"""Columns that decide the chunk of a row: checks of keys and of order need a connection's rows in one."""
MOST_TASKS: Final = 200
"""Maximum number of tasks. Each reads files in turn: an archive of one-second batches has very many."""


class ChunkedTable(NamedTuple):
    """A suite, and the function that prepares the rows of a chunk for it."""

    suite: Suite
    prepared: Callable[[pa.Table], pandas.DataFrame]


@contextmanager
def audit_session(configuration: Configuration) -> Iterator[SparkSession]:
    """Start Spark in this process: a cluster's workers have no Great Expectations.

    Raises UserError if Spark cannot start or fails.
    """
    try:
        with spark_session(msgspec.structs.replace(configuration, master=LOCAL)) as session:
            yield session
    except (PySparkException, Py4JError) as error:
        raise UserError(f"the audit ended: {explain(str(error))[1]}") from error


def chunks_of(rows: int) -> int:
    """Return how many chunks a table of `rows` rows has."""
    return max(1, -(-rows // CHUNK_ROWS))


def parted(suite: str, rows: pa.Table, together: list[str], chunks: int) -> Iterator[pa.RecordBatch]:
    """Yield the parts of some rows of a table. Rows that agree in the columns `together` share a chunk."""
    numbers = chunk_numbers(rows.select(together).to_pandas(), together, chunks).to_numpy()
    for number in np.unique(numbers).tolist():
        part = _packed(rows.take(np.flatnonzero(numbers == number)))
        yield pa.RecordBatch.from_pylist([{"suite": suite, "chunk": number, "part": part}], _PARTS)


def validated(parts: DataFrame, tables: Callable[[], Mapping[str, ChunkedTable]]) -> list[SuiteResult]:
    """Validate the chunks of all tables. Tables without parts have no result.

    `tables` returns the tables by suite. It is called in Spark's workers, too.
    """

    def outcomes(key: tuple[str, int], rows: pandas.DataFrame) -> pandas.DataFrame:
        table = tables()[key[0]]
        chunk = pa.concat_tables([pa.ipc.open_stream(part).read_all() for part in rows["part"]])
        found = validate_chunk(table.suite, table.prepared(chunk))
        return pandas.DataFrame(
            [(key[0], each.id, each.success, each.rows, each.considered, each.unexpected) for each in found],
            columns=["suite", "id", "success", "rows", "considered", "unexpected"],
        )

    found: defaultdict[str, list[ChunkOutcome]] = defaultdict(list)
    for row in parts.groupBy("suite", "chunk").applyInPandas(outcomes, _OUTCOMES).collect():
        fields: dict[str, Any] = row.asDict()
        found[fields.pop("suite")].append(ChunkOutcome(**fields))
    return [merged(table.suite, found[name]) for name, table in tables().items() if name in found]


def _packed(rows: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    packed: bytes = stream.getvalue().to_pybytes()
    return packed


class PublishedRange(NamedTuple):
    """The times of publication to audit, `since` included and `until` not; None for no limit."""

    since: datetime | None = None
    until: datetime | None = None


def audit_range(configuration: Configuration, published: PublishedRange) -> list[SuiteResult]:
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


def _read(session: SparkSession, configuration: Configuration, published: PublishedRange) -> DataFrame:
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


class _File(NamedTuple):
    """A file of a table, the columns of all its files, and how its rows are spread over chunks of a suite."""

    suite: str
    fragment: ds.Fragment
    schema: pa.Schema
    together: list[str]
    chunks: int

    def parts(self) -> Iterator[pa.RecordBatch]:
        for rows in rows_of_file(self.fragment, self.schema):
            yield from parted(self.suite, rows, self.together, self.chunks)


def audit_large_archive(
    configuration: Configuration, folder: Path, days: Days, policies: Path | None = None
) -> list[SuiteResult]:
    """Validate an archive in chunks, by policies or by the suites of its tables.

    Raises UserError if it cannot be read, or Spark fails.
    """
    text, now = table_text(configuration.schemas), time.time_ns()
    # Great Expectations' objects do not travel, so each worker makes its own.
    suites = functools.partial(_suites, now, text, policies)
    with readable(folder):
        archive = opened(folder, schemas_of(text))
        files = list(_files(archive, days, suites()))
    with audit_session(configuration) as session:
        return _validated(session, files, archive, suites)


def _suites(now: int, text: str | None, policies: Path | None) -> list[Suite]:
    return policies_of(policies) if policies else suites_at(now, schemas_of(text))


def _validated(
    session: SparkSession,
    files: list[_File],
    archive: AuditedArchive,
    suites: Callable[[], list[Suite]],
) -> list[SuiteResult]:
    def parts(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from files[number].parts()

    def tables() -> dict[str, ChunkedTable]:
        by_name = {table.name: table for table in AUDITED}
        return {
            suite.name: ChunkedTable(
                suite, functools.partial(with_neighbours, by_name[suite.table], known=archive.known)
            )
            for suite in suites()
        }

    numbers = session.range(len(files), numPartitions=max(1, min(len(files), MOST_TASKS)))
    return validated(numbers.mapInArrow(parts, PART_SCHEMA), tables)


def _files(archive: AuditedArchive, days: Days, suites: list[Suite]) -> Iterator[_File]:
    counts = archive.counts(days)
    for suite in suites:
        if (dataset := archive.datasets.get(suite.table)) is None:
            continue
        texts = [field.name for field in dataset.schema if pa.types.is_string(field.type)]
        together, chunks = rows_together(suite, texts), chunks_of(counts[suite.table])
        for fragment in dataset.get_fragments(filter=days.condition):
            yield _File(suite.name, fragment, dataset.schema, together, chunks)
