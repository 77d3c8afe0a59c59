"""Prepares the archive's tables for their suites: adds columns on each row's file and on other tables' rows.

So suites look at single rows and keys only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pandas

from expectations.suites import FURTHER

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
SHORTEST_REQUEST: Final = 8
"""Bytes of the length, API key and API version: a client may send a request of nothing else."""
_FILE: Final = re.compile(r"(?P<query>.+?)-(?:merged-)?\d{12}\.parquet")
PER_REQUEST_RULE: Final = "kip1313/header-version-mismatch"
"""A rule that is checked on each request, so a batch in which it was checked has usage."""


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
