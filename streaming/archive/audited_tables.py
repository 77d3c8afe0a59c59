"""Reads the archive for its audit, as it is: files of other versions and with other columns, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from expectations.suites.archived_rows import EXTRA_COLUMNS, Neighbours, archived_rows, query_of
from streaming.archive.siblings import missing_siblings
from streaming.archive.table import VERSION_KEY, Table
from streaming.archive.tables import TABLES
from streaming.user_error import UserError

AUDITED: Final = tuple(table for table in TABLES if table.name in EXTRA_COLUMNS)
"""The tables that have a suite."""
MOST_ROWS: Final = 2_000_000
"""Rows of a table that are read into memory."""
_PATH: Final = "__filename"
"""What pyarrow calls the column that holds a row's file."""


class Days(NamedTuple):
    """The days to audit, such as `2026-06-21`, both included; None for no limit."""

    since: str | None = None
    until: str | None = None

    @property
    def condition(self) -> pc.Expression | None:
        """The condition on the partition."""
        day, condition = ds.field("day"), None
        if self.since:
            condition = day >= self.since
        if self.until:
            until = day <= self.until
            condition = until if condition is None else condition & until
        return condition


def audited_tables(folder: Path, days: Days) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Yield the rows of each table that has files. Raises UserError if one cannot be read or has too many."""
    found = {table.name: (folder / table.name).is_dir() for table in AUDITED}
    if not any(found.values()):
        raise UserError(f"{folder} is no archive: it has no table, such as {folder / 'usage'}")
    try:
        datasets = {table.name: _dataset(folder, table) for table in AUDITED if found[table.name]}
        known = _neighbours(folder, datasets)
        for table in AUDITED:
            if found[table.name]:
                rows = _read(folder, datasets[table.name], table, days)
                yield table.name, archived_rows(table.name, table.time, rows, known)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read the archive {folder}: {str(error).splitlines()[0]}") from error


def _dataset(folder: Path, table: Table) -> ds.Dataset:
    """Open a table with the columns of all its files."""
    found = ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY)
    schemas = [fragment.physical_schema.remove_metadata() for fragment in found.get_fragments()]
    day = pa.schema([("day", pa.string())])
    unified = pa.unify_schemas([table.schema.remove_metadata(), *schemas, day], promote_options="permissive")
    return ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY, schema=unified)


def _read(folder: Path, dataset: ds.Dataset, table: Table, days: Days) -> pandas.DataFrame:
    count = dataset.count_rows(filter=days.condition)
    if count > MOST_ROWS:
        raise UserError(
            f"{folder / table.name} has {count} rows, and up to {MOST_ROWS} are read: name fewer days "
            "with --since and --until"
        )
    names = [*dataset.schema.names, _PATH]
    rows = dataset.to_table(columns=names, filter=days.condition)
    return rows.rename_columns([*dataset.schema.names, "path"]).to_pandas()


def _neighbours(folder: Path, datasets: dict[str, ds.Dataset]) -> Neighbours:
    """Read what rows of one table imply of others. All days count: rows of one batch may be of two."""
    versions = {
        fragment.path: int((fragment.physical_schema.metadata or {}).get(VERSION_KEY, b"-1"))
        for dataset in datasets.values()
        for fragment in dataset.get_fragments()
    }
    return Neighbours(
        versions,
        used=_files(datasets.get("usage")),
        checked=_files(datasets.get("coverage")),
        found=_rules(datasets.get("findings"), None),
        violated=_rules(datasets.get("coverage"), ds.field("verdict") == "violates"),
        missing={str(folder / path): ", ".join(files) for path, files in missing_siblings(folder).items()},
        ranges=frozenset(_distinct(datasets.get("brokers"), ["ranges_id"], None)["ranges_id"].dropna()),
    )


def _files(dataset: ds.Dataset | None) -> frozenset[str]:
    fragments = dataset.get_fragments() if dataset else ()
    return frozenset(fragment.path.rpartition("/")[2] for fragment in fragments)


def _rules(dataset: ds.Dataset | None, condition: pc.Expression | None) -> frozenset[tuple[str, str]]:
    """Return the rules of rows, by query."""
    rows = _distinct(dataset, ["rule", _PATH], condition)
    queries = (query_of(path.rpartition("/")[2]) or "" for path in rows[_PATH])
    return frozenset(zip(queries, rows["rule"], strict=True))


def _distinct(
    dataset: ds.Dataset | None, columns: list[str], condition: pc.Expression | None
) -> pandas.DataFrame:
    if dataset is None:
        return pandas.DataFrame({column: pandas.Series(dtype="string") for column in columns})
    rows: Any = dataset.to_table(columns=columns, filter=condition).group_by(columns).aggregate([])
    frame: pandas.DataFrame = rows.to_pandas()
    return frame


_BY_DAY: Final = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
