"""The suites over all tables of the archive.

`of_every_table` has what is expected of each: its columns, its files, its times. Other modules have what is
expected of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pandas
from great_expectations import expectations as expect

from decoders.schema.registry import Schemas
from expectations.suites import FURTHER
from expectations.suites.archived_rows import EXTRA_COLUMNS, FILE_COLUMNS
from expectations.suites.connections import (
    brokers_expectations,
    connections_expectations,
    groups_expectations,
)
from expectations.suites.findings import coverage_expectations, findings_expectations
from expectations.suites.suite import CRITICAL, DELETE_COPY, WARNING, Expectation, Suite, expected
from expectations.suites.usage import errors_expectations, usage_expectations

FIRST_PLAUSIBLE: Final = pandas.Timestamp(2001, 9, 9, tz="UTC")
"""A clock that was never set is before this day, and so is a time in another unit."""
FILE_NAME: Final = r"^.+-(?:merged-)?\d{12}\.parquet$"


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


def of_every_table(
    columns: Sequence[str], time: str, latest: pandas.Timestamp, version: int
) -> tuple[Expectation, ...]:
    """Return the expectations on a table with `columns`, whose rows are placed by the column `time`.

    No capture is later than `latest`. `version` is that of the tables which this release writes.
    """
    return (
        expected(
            expect.ExpectTableColumnsToMatchSet,
            "columns-complete",
            CRITICAL,
            "The table has the columns that docs/archive.md describes, and no other.",
            "Read the table with the release that wrote it, or delete the days that another program wrote.",
            column_set=list(columns),
            exact_match=True,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "table-version",
            CRITICAL,
            "Each file says that it is of this release's version of the tables.",
            "Keep the files of another release in a folder of their own; their columns mean something else.",
            column="table_version",
            value_set=[version],
        ),
        expected(
            expect.ExpectColumnValuesToMatchRegex,
            "file-of-a-batch",
            CRITICAL,
            "Each file is named after a query and a batch, so that a batch that is judged again replaces it.",
            f"Find out who wrote the file. {DELETE_COPY}",
            column="file",
            regex=FILE_NAME,
        ),
        expected(
            expect.ExpectColumnValuesToBeNull,
            "files-of-the-batch",
            CRITICAL,
            "Beside a file there are those of all tables that its batch wrote.",
            "Restore the files that are named, or delete those of the batch from all tables.",
            column="missing",
        ),
        expected(
            expect.ExpectColumnPairValuesToBeEqual,
            "row-in-its-day",
            CRITICAL,
            "Rows are in the folder of their own day, where queries by day look for them.",
            "Move the file back to its day.",
            column_A="day",
            column_B="row_day",
        ),
        expected(
            expect.ExpectColumnValuesToNotBeInSet,
            "days-have-folders",
            WARNING,
            "No batch has rows of more days than it may have folders for, as only a wrong clock or a crafted "
            "block brings about.",
            f"Find out who publishes such frames. Rows in {FURTHER} are whole: read them by their own time.",
            column="day",
            value_set=[FURTHER],
        ),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "time-plausible",
            WARNING,
            "Captures are neither older than Kafka nor in the future.",
            "Set the clock of the host that captured, with NTP, and delete the days that it made up.",
            column=time,
            min_value=FIRST_PLAUSIBLE,
            max_value=latest,
        ),
    )
