"""The suites over all tables of the archive, and the columns by which they see more than a table's own rows.

`of_every_table` has what is expected of each table: its columns, its files, its times. Other modules have
what is expected of one. `archived_rows` adds columns on each row's file and on other tables' rows, so suites
look at single rows and keys only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pandas
from great_expectations import expectations as expect

from decoders.schema.registry import Schemas
from expectations.suites import FURTHER
from expectations.suites.connections import (
    brokers_expectations,
    connections_expectations,
    groups_expectations,
)
from expectations.suites.findings import coverage_expectations, findings_expectations
from expectations.suites.suite import CRITICAL, DELETE_COPY, WARNING, Expectation, Suite, expected
from expectations.suites.usage import SHORTEST_REQUEST, errors_expectations, usage_expectations

FIRST_PLAUSIBLE: Final = pandas.Timestamp(2001, 9, 9, tz="UTC")
"""A clock that was never set is before this day, and so is a time in another unit."""
FILE_NAME: Final = r"^.+-(?:merged-)?\d{12}\.parquet$"
FILE_COLUMNS: Final = ("file", "query", "is_merged", "day", "row_day", "table_version", "missing")
"""Columns that every table gets: the file's name, the query in it, whether it holds several batches, the day
of its folder, the day of the row's own time (or FURTHER, if that is the folder's), the version in the file's
metadata, -1 if it has none, and the files of its batch that are missing, null if none is."""
EXTRA_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "usage": ("call", "headed_call", "fate", "is_checked", "bytes_beyond"),
    "errors": (),
    "findings": ("is_counted",),
    "coverage": ("is_found", "is_used"),
    "connections": ("has_ranges",),
    "groups": (),
    "brokers": ("is_named",),
}
"""Columns that a table gets beside those. `call` is key:version of a request, `headed_call` has the version
of its header, too. `fate` is what the loaded release does with the call: kept, deprecated or removed.
`bytes_beyond` are the bytes beyond those of the shortest possible requests. The others are whether another
table has what the row implies."""
REMOVED: Final = "removed"
"""The fate of a call that is not among those of the loaded release."""
_FILE: Final = re.compile(r"(?P<query>.+?)-(?:merged-)?\d{12}\.parquet")
PER_REQUEST_RULE: Final = "kip1313/header-version-mismatch"
"""A rule that is checked on each request, so a batch in which it was checked has usage."""


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


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The content of all tables of an archive, as far as rows of other tables depend on it.

    `versions` are those of the tables by path of the file. `used` and `checked` are the names of the files of
    usage and coverage. `found` and `violated` are the rules with findings and with violations, by query,
    `ranges` the known `ranges_id`s. `missing` names the files that are missing beside a file, by its path.
    `fates` are those of the calls that the loaded release has.
    """

    versions: Mapping[str, int]
    used: frozenset[str] = field(default=frozenset())
    checked: frozenset[str] = field(default=frozenset())
    found: frozenset[tuple[str, str]] = field(default=frozenset())
    violated: frozenset[tuple[str, str]] = field(default=frozenset())
    ranges: frozenset[str] = field(default=frozenset())
    missing: Mapping[str, str] = field(default_factory=dict)
    fates: Mapping[str, str] = field(default_factory=dict)


def archived_rows(table: str, time: str, rows: pandas.DataFrame, known: Neighbours) -> pandas.DataFrame:
    """Return the rows of a table with the columns of FILE_COLUMNS and EXTRA_COLUMNS.

    `rows` have the table's columns, `day`, and `path`, that of their file; `time` names the column that
    decides the day of a row.
    """
    rows = rows.copy()
    path = rows.pop("path")
    rows["file"] = path.map(lambda each: each.rpartition("/")[2]).astype("string")
    rows["query"] = rows["file"].map(query_of)
    rows["is_merged"] = rows["file"].str.contains("-merged-", regex=False)
    rows["day"] = rows["day"].astype("string")
    own_day = pandas.to_datetime(rows[time], utc=True).dt.strftime("%Y-%m-%d").astype("string")
    rows["row_day"] = own_day.where(rows["day"] != FURTHER, FURTHER)
    rows["table_version"] = path.map(known.versions).fillna(-1).astype("int64")
    rows["missing"] = path.map(known.missing).astype("string")
    if table in _EXTRA:
        for name, values in _EXTRA[table](rows, known).items():
            rows[name] = values
    return rows


def query_of(file: str) -> str | None:
    """Return the query that wrote a file of an archive, by the file's name; None if no query did."""
    named = _FILE.fullmatch(file)
    return named["query"] if named else None


def _usage(rows: pandas.DataFrame, known: Neighbours) -> Mapping[str, Any]:
    names = ("api_key", "api_version", "header_version")
    key, version, header = (rows[name].astype("Int64").astype("string") for name in names)
    call = key + ":" + version
    fate = call.map(known.fates).fillna(REMOVED).astype("string")
    return {
        "call": call.where(rows["api"] != "unknown"),
        "fate": fate.where(rows["api"] != "unknown"),
        "headed_call": (call + ":" + header).where(rows["api"] != "unknown"),
        "bytes_beyond": rows["request_bytes"] - SHORTEST_REQUEST * rows["requests"],
        "is_checked": rows["is_merged"] | rows["file"].isin(known.checked),
    }


def _findings(rows: pandas.DataFrame, known: Neighbours) -> Mapping[str, Any]:
    return {"is_counted": _pairs(rows).isin(known.violated)}


def _coverage(rows: pandas.DataFrame, known: Neighbours) -> Mapping[str, Any]:
    is_violated = rows["verdict"] == "violates"
    is_per_request = (rows["rule"] == PER_REQUEST_RULE) & (rows["verdict"] == "conforms")
    return {
        "is_found": ~is_violated | _pairs(rows).isin(known.found),
        "is_used": rows["is_merged"] | ~is_per_request | rows["file"].isin(known.used),
    }


def _connections(rows: pandas.DataFrame, known: Neighbours) -> Mapping[str, Any]:
    return {"has_ranges": rows["ranges_id"].isna() | rows["ranges_id"].isin(known.ranges)}


def _brokers(rows: pandas.DataFrame, known: Neighbours) -> Mapping[str, Any]:
    del known
    return {"is_named": rows["ranges"].isna() == rows["ranges_id"].isna()}


def _pairs(rows: pandas.DataFrame) -> pandas.Series[Any]:
    return pandas.Series(list(zip(rows["query"], rows["rule"], strict=True)), index=rows.index, dtype=object)


_EXTRA: Final = {
    "usage": _usage,
    "findings": _findings,
    "coverage": _coverage,
    "connections": _connections,
    "brokers": _brokers,
}
