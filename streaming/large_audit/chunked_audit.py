"""Validates tables of any size in Spark: each chunk of rows in a task, with Great Expectations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from expectations.suites.chunks import ChunkOutcome, chunk_numbers, merged, validate_chunk
from expectations.suites.expectation import Suite
from expectations.suites.validation import SuiteResult
from streaming.query.exit_reason import explain
from streaming.query.session import LOCAL, spark_session
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

CHUNK_ROWS: Final = 250_000
"""Rows of a chunk, about: a task holds them in memory."""
PART_SCHEMA: Final = "suite string, chunk int, part binary"
"""A part of a chunk: some of its rows as an Arrow stream."""
_OUTCOMES: Final = "suite string, id string, success boolean, rows long, considered long, unexpected long"
_PARTS: Final = pa.schema([("suite", pa.string()), ("chunk", pa.int32()), ("part", pa.binary())])


class ChunkedTable(NamedTuple):
    """A suite, and what makes of the rows of a chunk the table that it looks at."""

    suite: Suite
    prepared: Callable[[pa.Table], pandas.DataFrame]


@contextmanager
def audit_session(configuration: Configuration) -> Iterator[SparkSession]:
    """Start Spark in this process: a cluster's workers have no Great Expectations.

    Raises UserError if Spark cannot start, and for whatever it fails with.
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
    """Validate the chunks of all tables, which `tables` names by suite. Tables without parts have no result.

    `tables` is called in Spark's workers, too.
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
