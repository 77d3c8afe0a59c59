"""The audit of an archive: each of its tables against its suite of Great Expectations."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from decoders.schema.registry import Schemas
from expectations.suites.archive_suites import TableLayout, archive_suites
from expectations.suites.expectation import Suite
from expectations.suites.validation import SuiteResult, validate
from streaming.archive.audited_tables import AUDITED, AuditedArchive, Days, opened, readable, with_neighbours
from streaming.archive.table import VERSION, instant

CLOCKS: Final = timedelta(minutes=5)
"""How far clocks of hosts may differ."""
MOST_ROWS: Final = 2_000_000
"""Rows of a table that are read into memory. More are audited in Spark."""


def audit_archive(folder: Path, days: Days, schemas: Schemas) -> list[SuiteResult] | None:
    """Validate the tables of an archive; return None if one has more rows than are read into memory.

    Raises UserError if it cannot be read.
    """
    with readable(folder):
        archive = opened(folder)
        if max(archive.counts(days).values()) > MOST_ROWS:
            return None
        return _validated(archive, days, suites_at(time.time_ns(), schemas))


def suites_at(now: int, schemas: Schemas) -> dict[str, Suite]:
    """Return the suites of all tables by name. `now` is in nanoseconds since the epoch."""
    layouts = {table.name: TableLayout(table.schema.names, table.time) for table in AUDITED}
    suites = archive_suites(layouts, VERSION, instant(now) + CLOCKS, schemas)
    return {suite.table: suite for suite in suites}


def _validated(archive: AuditedArchive, days: Days, suites: dict[str, Suite]) -> list[SuiteResult]:
    return [
        validate(suites[table.name], with_neighbours(table, archive.rows(table, days), archive.known))
        for table in AUDITED
        if table.name in archive.datasets
    ]
