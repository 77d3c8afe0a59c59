"""The suites over all tables of the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas

from decoders.schema.registry import Schemas
from expectations.suites.archived_rows import EXTRA_COLUMNS, FILE_COLUMNS
from expectations.suites.brokers import brokers_expectations
from expectations.suites.connections import connections_expectations
from expectations.suites.coverage import coverage_expectations
from expectations.suites.errors import errors_expectations
from expectations.suites.every_table import of_every_table
from expectations.suites.expectation import Suite
from expectations.suites.findings import findings_expectations
from expectations.suites.groups import groups_expectations
from expectations.suites.usage import usage_expectations


class TableLayout(NamedTuple):
    """The columns that a table has in its files, and the one that decides the day of a row."""

    columns: Sequence[str]
    time: str


def archive_suites(
    layouts: Mapping[str, TableLayout], version: int, latest: pandas.Timestamp, schemas: Schemas
) -> list[Suite]:
    """Return a suite a table. No capture is later than `latest`, `version` is that of the tables."""
    own = {
        "usage": usage_expectations(schemas),
        "errors": errors_expectations(schemas),
        "findings": findings_expectations(),
        "coverage": coverage_expectations(),
        "connections": connections_expectations(),
        "groups": groups_expectations(),
        "brokers": brokers_expectations(),
    }
    return [
        Suite(
            table,
            (*of_every_table(_columns(table, layouts[table]), layouts[table].time, latest, version), *found),
        )
        for table, found in own.items()
    ]


def _columns(table: str, layout: TableLayout) -> list[str]:
    return [*layout.columns, *FILE_COLUMNS, *EXTRA_COLUMNS[table]]
