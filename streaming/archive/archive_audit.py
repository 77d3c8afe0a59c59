"""The audit of an archive: each of its tables against its suite of Great Expectations."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from decoders.schema.registry import Schemas
from expectations.suites.archive_suites import TableLayout, archive_suites
from expectations.suites.validation import SuiteResult, validate
from streaming.archive.audited_tables import AUDITED, Days, audited_tables
from streaming.archive.table import VERSION, instant

CLOCKS: Final = timedelta(minutes=5)
"""How far clocks of hosts may differ."""


def audit_archive(folder: Path, days: Days, schemas: Schemas) -> list[SuiteResult]:
    """Validate the tables of an archive. Raises UserError if it cannot be read."""
    layouts = {table.name: TableLayout(table.schema.names, table.time) for table in AUDITED}
    latest = instant(time.time_ns()) + CLOCKS
    suites = {suite.table: suite for suite in archive_suites(layouts, VERSION, latest, schemas)}
    return [validate(suites[name], rows) for name, rows in audited_tables(folder, days)]
