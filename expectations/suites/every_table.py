"""What is expected of every table of the archive: its columns, its files, its times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas
from great_expectations import expectations as expect
from great_expectations.expectations.row_conditions import Column

from expectations.suites import FURTHER
from expectations.suites.suite import (
    CRITICAL,
    WARNING,
    Expectation,
    expected,
)

FIRST_PLAUSIBLE: Final = pandas.Timestamp(2001, 9, 9, tz="UTC")
"""A clock that was never set is before this day, and so is a time in another unit."""
FILE_NAME: Final = r"^.+-(?:merged-)?\d{12}\.parquet$"
DELETE_COPY: Final = "Delete the copy: its rows count twice."


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


def counted(column: str, identifier: str, *, least: int = 1) -> Expectation:
    """Expect that a column counts something: no row is written for nothing."""
    return expected(
        expect.ExpectColumnValuesToBeBetween,
        identifier,
        CRITICAL,
        f"`{column}` is {least} or more: a row is written for what happened only.",
        "Do not build on the sums of this day; report it as a fault of kipwatch, with the file.",
        column=column,
        min_value=least,
    )


def among(column: str, identifier: str, values: Sequence[Any], meaning: str) -> Expectation:
    """Expect that a column has certain values."""
    return expected(
        expect.ExpectColumnValuesToBeInSet,
        identifier,
        CRITICAL,
        meaning,
        "Read the table with the release that wrote it; if that was this one, it is a fault of kipwatch.",
        column=column,
        value_set=list(values),
    )


OF_A_BATCH: Final = Column("is_merged") == False  # noqa: E712  # Great Expectations builds a condition of it
"""Rows whose file holds one batch."""


def unique(identifier: str, columns: Sequence[str], meaning: str, **where: Any) -> Expectation:
    """Expect that no two rows agree in all of some columns."""
    return expected(
        expect.ExpectCompoundColumnsToBeUnique,
        identifier,
        CRITICAL,
        meaning,
        f"Find the file that repeats another one. {DELETE_COPY}",
        column_list=list(columns),
        **where,
    )
