"""The suites over all tables of the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas

from decoders.schema.registry import Schemas
from expectations.suites.archived_rows import EXTRA_COLUMNS, FILE_COLUMNS
from expectations.suites.connections import (
    brokers_expectations,
    connections_expectations,
    groups_expectations,
)
from expectations.suites.every_table import of_every_table
from expectations.suites.findings import coverage_expectations, findings_expectations
from expectations.suites.suite import Suite
from expectations.suites.usage import errors_expectations, usage_expectations


class TableLayout(NamedTuple):
    """The columns that a table has in its files, and the one that decides the day of a row."""

    columns: Sequence[str]
    time: str


def archive_suites(
    layouts: Mapping[str, TableLayout], version: int, latest: pandas.Timestamp, schemas: Schemas
) -> list[Suite]:
    """Return a suite for each table. No capture is later than `latest`, `version` is that of the tables."""
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
