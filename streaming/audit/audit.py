"""Audits that fit in one process: Great Expectations over what is stored, without Spark.

`audit` validates the latest frames of the topic, and the records that they are in. `audit_archive` validates
each table of an archive. It reads the archive as it is: files of other versions and with other columns, too.
`sampled_tables` makes the same tables of a sample of a batch, for the live validation.
`streaming/large_audit.py` does the first two at any size.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.table import Table

from decoders.schema.registry import Schemas, default_schemas
from expectations.report.history_page import PolicyHistory, PolicyWeek
from expectations.report.upgrade import fate_of
from expectations.suites.archive_suites import (
    EXTRA_COLUMNS,
    FILE_COLUMNS,
    Neighbours,
    TableLayout,
    archive_suites,
    archived_rows,
    query_of,
)
from expectations.suites.frame_table import frame_table, with_order
from expectations.suites.frames import frames_suite, records_suite, records_table
from expectations.suites.policies import read_policies
from expectations.suites.suite import Suite, SuiteError, SuiteResult, validate
from streaming.archive.batch_files import missing_siblings, readable
from streaming.archive.tables import TABLES, VERSION, VERSION_KEY, ArchivedBatch, ArchiveTable, instant
from streaming.audit.frames_topic import TopicSlice, latest_slice
from streaming.audit.live_validation import drawn
from streaming.judging.report import TENTH, Report
from streaming.settings.kafka_client import Setting
from streaming.user_error import UserError

CLOCKS: Final = 300 * 1_000_000_000
"""How far clocks of hosts may differ, in nanoseconds."""
AUDITED: Final = tuple(table for table in TABLES if table.name in EXTRA_COLUMNS)
"""The tables of an archive that have a suite."""
MOST_ROWS: Final = 2_000_000
"""Rows of a table that are read into memory. More are audited in Spark."""
SAMPLED_ROWS: Final = 1_000
"""Rows of a table of a sample."""
_PATH: Final = "__filename"
"""pyarrow's name for the column that holds a row's file."""
_BY_DAY: Final = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
_OF_OTHER_TABLES: Final = frozenset({"is_checked", "is_counted", "is_found", "is_used", "has_ranges"})
"""Columns that compare a row with other tables, of which a sample has only a part."""
_SAMPLE_FILE: Final = "sample-000000000000.parquet"


def audit(
    bootstrap: str,
    topic: str,
    limit: int,
    settings: Mapping[str, Setting] = MappingProxyType({}),
    schemas: Schemas | None = None,
) -> list[SuiteResult]:
    """Read the last `limit` frames, evenly over the partitions; validate them, and the records they are in.

    `settings` is the table [kafka]. Frames are decoded with `schemas`, by default the committed ones. Raises
    UserError if Kafka cannot be reached, the topic does not exist, or it holds other records only.
    """
    found = latest_slice(bootstrap, topic, limit, settings)
    _demand_frames(topic, found)
    records = validate(records_suite(), records_table(found.blocks))
    frames = frame_table(schemas or default_schemas(), found.frames)
    ordered = with_order(frames, [record.paired_sequence for *_, record in found.frames])
    return [records, validate(frames_suite(time.time_ns() + CLOCKS), ordered)]


def audit_table(result: SuiteResult) -> Table:
    """Return a table with the result of each expectation."""
    table = Table("expectation", "weight", "result", box=None, pad_edge=False)
    for outcome in result.outcomes:
        text = (
            "holds"
            if outcome.success
            else f"[red]{outcome.unexpected_count} of {result.rows} rows do not hold[/]"
        )
        table.add_row(outcome.id, outcome.severity, text)
    return table


def _demand_frames(topic: str, found: TopicSlice) -> None:
    refused = [(partition, offset, line) for partition, offset, line in found.blocks if line is not None]
    if refused and len(refused) == len(found.blocks):
        partition, offset, line = refused[-1]
        place = f"{topic}, partition {partition}, offset {offset}"
        raise UserError(f"{place} holds no frames of kipwatch: {line}; check --frames-topic")


def audit_archive(
    folder: Path, days: Days, schemas: Schemas, policies: Sequence[Suite] = ()
) -> list[SuiteResult] | None:
    """Validate an archive by policies, by the suites of its tables if there are none.

    Returns None if a table that they concern has more rows than are read into memory. Raises UserError if it
    cannot be read.
    """
    with readable(folder):
        archive, suites = opened(folder, schemas), policies or suites_at(time.time_ns(), schemas)
        concerned, counts = {suite.table for suite in suites}, archive.counts(days)
        if any(count > MOST_ROWS for name, count in counts.items() if name in concerned):
            return None
        try:
            return _validated(archive, days, suites)
        except SuiteError as error:
            raise UserError(str(error)) from error


def policies_by_week(
    folder: Path, weeks: Sequence[str], schemas: Schemas, policies: Sequence[Suite]
) -> list[PolicyHistory]:
    """Validate an archive by policies, week by week. A week is named by its Monday.

    Raises UserError if the archive cannot be read, or a week has more rows than are read into memory.
    """
    found: dict[tuple[str, str], PolicyHistory] = {}
    for week in weeks:
        sunday = date.fromisoformat(week) + timedelta(days=6)
        results = audit_archive(folder, Days(week, sunday.isoformat()), schemas, policies)
        if results is None:
            raise UserError(f"the week of {week} is too large for policies: leave out the setting policies")
        for result in results:
            for outcome in result.outcomes:
                key = result.table, outcome.id
                history = found.setdefault(key, PolicyHistory(result.table, outcome.meaning, {}))
                history.weeks[week] = PolicyWeek(result.rows, outcome.unexpected_count, outcome.success)
    return [found[key] for key in sorted(found)]


def policies_of(path: Path) -> list[Suite]:
    """Read the policies of a file or folder. Raises UserError."""
    columns = {
        table.name: (*table.schema.names, *FILE_COLUMNS, *EXTRA_COLUMNS[table.name]) for table in AUDITED
    }
    try:
        return read_policies(path, columns)
    except ValueError as error:
        raise UserError(str(error)) from error


def suites_at(now: int, schemas: Schemas) -> list[Suite]:
    """Return the suites of all tables, in their order. `now` is in nanoseconds since the epoch."""
    layouts = {table.name: TableLayout(table.schema.names, table.time) for table in AUDITED}
    return archive_suites(layouts, VERSION, instant(now + CLOCKS), schemas)


def _validated(archive: AuditedArchive, days: Days, suites: Sequence[Suite]) -> list[SuiteResult]:
    results = []
    for table in AUDITED:
        concerned = [suite for suite in suites if suite.table == table.name]
        if concerned and table.name in archive.datasets:
            rows = with_neighbours(table, archive.rows(table, days), archive.known)
            results += [validate(suite, rows) for suite in concerned]
    return results


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
    """The tables of an archive by name, and facts about their rows that suites of other tables need."""

    datasets: dict[str, ds.Dataset]
    known: Neighbours

    def counts(self, days: Days) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {name: each.count_rows(filter=days.condition) for name, each in self.datasets.items()}

    def rows(self, table: ArchiveTable, days: Days) -> pa.Table:
        """Read the rows of a table into memory, with their `day`, and the `path` of their file."""
        names = self.datasets[table.name].schema.names
        rows = self.datasets[table.name].to_table(columns=[*names, _PATH], filter=days.condition)
        return rows.rename_columns([*names, "path"])


def opened(folder: Path, schemas: Schemas) -> AuditedArchive:
    """Open an archive. `schemas` are those of the loaded release. Raises UserError if it has no table."""
    found = [table for table in AUDITED if (folder / table.name).is_dir()]
    if not found:
        raise UserError(f"{folder} is no archive: it has no table, such as {folder / 'usage'}")
    datasets = {table.name: _dataset(folder, table) for table in found}
    return AuditedArchive(datasets, _neighbours(folder, datasets, schemas))


def rows_of_file(fragment: ds.Fragment, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read a file of a table piece by piece, with the columns of `AuditedArchive.rows`."""
    for batch in fragment.to_batches(schema=schema, columns=[*schema.names, _PATH]):
        yield pa.Table.from_batches([batch]).rename_columns([*schema.names, "path"])


def with_neighbours(table: ArchiveTable, rows: pa.Table, known: Neighbours) -> pandas.DataFrame:
    """Return the rows of a table with the further columns that its suite checks."""
    return archived_rows(table.name, table.time, rows.to_pandas(), known)


def _dataset(folder: Path, table: ArchiveTable) -> ds.Dataset:
    """Open a table with the columns of all its files."""
    found = ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY)
    schemas = [fragment.physical_schema.remove_metadata() for fragment in found.get_fragments()]
    day = pa.schema([("day", pa.string())])
    unified = pa.unify_schemas([table.schema.remove_metadata(), *schemas, day], promote_options="permissive")
    return ds.dataset(folder / table.name, format="parquet", partitioning=_BY_DAY, schema=unified)


def _neighbours(folder: Path, datasets: dict[str, ds.Dataset], schemas: Schemas) -> Neighbours:
    """Read the facts that suites of other tables need, from all days: a batch may have rows of two days."""
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
        fates=fates_of(schemas),
    )


def _files(dataset: ds.Dataset | None) -> frozenset[str]:
    fragments = dataset.get_fragments() if dataset else ()
    return frozenset(fragment.path.rpartition("/")[2] for fragment in fragments)


def _rules(dataset: ds.Dataset | None, condition: pc.Expression | None) -> frozenset[tuple[str, str]]:
    """Return the rules of rows, by query."""
    rows = _distinct(dataset, ["rule", _PATH], condition)
    queries = (query_of(path.rpartition("/")[2]) or "" for path in rows[_PATH])
    return frozenset(zip(queries, rows["rule"], strict=True))


def fates_of(schemas: Schemas) -> dict[str, str]:
    """Return what a release does with each call, key:version, that it has."""
    return {
        f"{api.key}:{version}": str(fate_of(api.key, version, schemas))
        for api in schemas.apis
        if api.release_versions
        for version in range(api.release_versions.lowest, api.release_versions.highest + 1)
    }


def _distinct(
    dataset: ds.Dataset | None, columns: list[str], condition: pc.Expression | None
) -> pandas.DataFrame:
    if dataset is None:
        return pandas.DataFrame({column: pandas.Series(dtype="string") for column in columns})
    rows: Any = dataset.to_table(columns=columns, filter=condition).group_by(columns).aggregate([])
    frame: pandas.DataFrame = rows.to_pandas()
    return frame


def sampled_tables(
    sample: Report, schemas: Schemas, suites: Sequence[Suite]
) -> Iterator[tuple[Suite, pandas.DataFrame]]:
    """Yield each suite with the rows that the sample has of its table. Some may have no rows."""
    batch = ArchivedBatch([sample], sample.findings, schemas.api_names, max(sample.captured) * TENTH)
    fates = fates_of(schemas)
    for table in AUDITED:
        concerned = [suite for suite in suites if suite.table == table.name]
        if concerned:
            rows = _sampled_rows(table, batch, fates)
            yield from ((_of_one_batch(suite), rows) for suite in concerned)


def _of_one_batch(suite: Suite) -> Suite:
    kept = (each for each in suite.expectations if getattr(each.check, "column", "") not in _OF_OTHER_TABLES)
    return Suite(suite.table, tuple(kept), suite.policy)


def _sampled_rows(table: ArchiveTable, batch: ArchivedBatch, fates: Mapping[str, str]) -> pandas.DataFrame:
    sample = drawn([list(table.rows(batch))], SAMPLED_ROWS)
    rows = pa.Table.from_pylist(sample, schema=table.schema).to_pandas()
    rows["day"] = pandas.to_datetime(rows[table.time], utc=True).dt.strftime("%Y-%m-%d")
    rows["path"] = _SAMPLE_FILE
    return archived_rows(table.name, table.time, rows, Neighbours({_SAMPLE_FILE: VERSION}, fates=fates))
