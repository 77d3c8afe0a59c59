"""The tables of a sample, each with its suite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

import pandas
import pyarrow as pa

from decoders.schema.registry import Schemas
from expectations.suites.archive_suites import TableLayout, archive_suites
from expectations.suites.archived_rows import Neighbours, archived_rows
from expectations.suites.expectation import Suite
from streaming.archive.archive_audit import CLOCKS
from streaming.archive.audited_tables import AUDITED
from streaming.archive.table import VERSION, Batch, Table, instant
from streaming.judging.report import Report

MOST_ROWS: Final = 1_000
"""Rows of a table."""
OF_OTHER_ROWS: Final = frozenset({"is_checked", "is_counted", "is_found", "is_used", "is_told"})
"""Columns that say what other tables hold. A sample has only a part of it."""
_TENTH: Final = 100_000_000
"""Nanoseconds in a tenth of a second."""
_FILE: Final = "sample-000000000000.parquet"


def sampled_tables(sample: Report, schemas: Schemas) -> Iterator[tuple[Suite, pandas.DataFrame]]:
    """Yield the suite and the rows of each table; there may be none of some."""
    batch = Batch([sample], sample.findings, schemas.api_names, max(sample.captured) * _TENTH)
    layouts = {table.name: TableLayout(table.schema.names, table.time) for table in AUDITED}
    suites = archive_suites(layouts, VERSION, instant(time.time_ns()) + CLOCKS, schemas)
    by_name = {suite.table: suite for suite in suites}
    for table in AUDITED:
        yield _of_one_batch(by_name[table.name]), _rows(table, batch)


def _of_one_batch(suite: Suite) -> Suite:
    kept = (each for each in suite.expectations if getattr(each.check, "column", "") not in OF_OTHER_ROWS)
    return Suite(suite.table, tuple(kept))


def _rows(table: Table, batch: Batch) -> pandas.DataFrame:
    rows = pa.Table.from_pylist(list(islice(table.rows(batch), MOST_ROWS)), schema=table.schema).to_pandas()
    rows["day"] = pandas.to_datetime(rows[table.time], utc=True).dt.strftime("%Y-%m-%d")
    rows["path"] = _FILE
    return archived_rows(table.name, table.time, rows, Neighbours({_FILE: VERSION}))
