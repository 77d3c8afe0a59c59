"""Reads the archive for its audit, as it is: files of other versions and with other columns, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


class AuditedArchive(NamedTuple):
    """The tables of an archive by name, and what their rows imply of each other."""

    datasets: dict[str, ds.Dataset]
    known: Neighbours

    def counts(self, days: Days) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {name: each.count_rows(filter=days.condition) for name, each in self.datasets.items()}

    def rows(self, table: Table, days: Days) -> pa.Table:
        """Read the rows of a table into memory, with `day` and `path`, that of their file."""
        names = self.datasets[table.name].schema.names
        rows = self.datasets[table.name].to_table(columns=[*names, _PATH], filter=days.condition)
        return rows.rename_columns([*names, "path"])


def opened(folder: Path) -> AuditedArchive:
    """Open an archive. Raises UserError if it has no table."""
    found = [table for table in AUDITED if (folder / table.name).is_dir()]
    if not found:
        raise UserError(f"{folder} is no archive: it has no table, such as {folder / 'usage'}")
    datasets = {table.name: _dataset(folder, table) for table in found}
    return AuditedArchive(datasets, _neighbours(folder, datasets))


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raise UserError if an archive cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read the archive {folder}: {str(error).splitlines()[0]}") from error


def rows_of_file(fragment: ds.Fragment, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read a file of a table piece by piece, with the columns of `AuditedArchive.rows`."""
    for batch in fragment.to_batches(schema=schema, columns=[*schema.names, _PATH]):
        yield pa.Table.from_batches([batch]).rename_columns([*schema.names, "path"])


def with_neighbours(table: Table, rows: pa.Table, known: Neighbours) -> pandas.DataFrame:
    """Return rows of a table as its suite looks at them."""
    return archived_rows(table.name, table.time, rows.to_pandas(), known)


def _dataset(folder: Path, table: Table) -> ds.Dataset:
    """Open a table with the columns of all its files."""
    found = ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY)
    schemas = [fragment.physical_schema.remove_metadata() for fragment in found.get_fragments()]
    day = pa.schema([("day", pa.string())])
    unified = pa.unify_schemas([table.schema.remove_metadata(), *schemas, day], promote_options="permissive")
    return ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY, schema=unified)


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
