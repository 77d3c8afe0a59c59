"""A table of the archive: its schema, the column that decides the day of a row, and the rows of a batch.

docs/archive.md says what each column means. VERSION counts up when a column changes its meaning or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from expectations.judging.finding import Finding
from streaming.judging.report import Report

VERSION: Final = 1
"""The version of the tables, in the metadata of each file under VERSION_KEY."""
VERSION_KEY: Final = b"kipwatch.archive"
INSTANT: Final = pa.timestamp("us", tz="UTC")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Values = dict[str, Any]


class Batch(NamedTuple):
    """A batch as the tables see it. `at`, in nanoseconds, is its latest capture, or the clock's time.

    `findings` can be read once: they are not in memory together.
    """

    reports: Sequence[Report]
    findings: Iterable[Finding]
    api_names: Mapping[int, str]
    at: int


class Table(NamedTuple):
    """A table: its schema, the column that decides the day of a row, and the rows of a batch."""

    name: str
    schema: pa.Schema
    time: str
    rows: Callable[[Batch], Iterator[Values]]


def schema_of(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    """Return the schema of columns, with the version of the tables in its metadata."""
    return pa.schema(columns, metadata={VERSION_KEY: str(VERSION).encode()})


def instant(nanoseconds: int) -> datetime:
    """Return the time of nanoseconds since the epoch, cut to microseconds."""
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)
