"""The suites over the archive: what kipwatch writes passes, and each fault fails its own expectation."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pandas
import pytest
from msgspec.structs import replace

from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.suites import FURTHER
from streaming.archive.archive import Archive
from streaming.archive.tables import TABLES, VERSION
from tests.streaming.archive.test_archive import grouped, judged, silent, upgraded
from tests.streaming.captures import violating

Change = Callable[[pandas.DataFrame], pandas.DataFrame]
BASE = 1_780_000_000_000_000_000
"""A day of 2026, in nanoseconds."""


@pytest.fixture(scope="module")
def auditing() -> ModuleType:
    """Loads Great Expectations where it is used: each worker that collects this file would spend 3 s."""
    return importlib.import_module("streaming.audit.audit")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches of a query: offences, groups, brokers of two kinds, and a client that never asks."""
    folder = tmp_path_factory.mktemp("archive")
    written = Archive(str(folder), default_schemas().api_names)
    for batch, exchanges in enumerate(((violating(), grouped()), (upgraded(), silent()))):
        for number, exchange in enumerate(exchanges):
            connection = bytes([batch, number]) * 8
            exchange.records[:] = [_of_2026(record, connection) for record in exchange.records]
        written.write("q", batch, [judged(exchange) for exchange in exchanges])
    return folder


def _of_2026(record: Record, connection: bytes) -> Record:
    return replace(record, captured_at=BASE + record.captured_at, connection=connection)


@pytest.fixture(scope="module")
def tables(archive: Path, auditing: ModuleType) -> dict[str, pandas.DataFrame]:
    whole, days = auditing.opened(archive, default_schemas()), auditing.Days()
    return {
        table.name: auditing.with_neighbours(table, whole.rows(table, days), whole.known)
        for table in auditing.AUDITED
    }


def value(column: str, what: object, row: int = 0) -> Change:
    def change(rows: pandas.DataFrame) -> pandas.DataFrame:
        rows = rows.copy()
        rows[column] = rows[column].astype(object)
        rows.iloc[row, rows.columns.get_loc(column)] = what
        return rows

    return change


def every(column: str, what: object) -> Change:
    return lambda rows: rows.assign(**{column: what})


def twice(rows: pandas.DataFrame) -> pandas.DataFrame:
    return pandas.concat([rows, rows.iloc[[0]]], ignore_index=True)


def where(condition: str, column: str, what: object) -> Change:
    """Set a column of the first row that meets a condition of pandas."""

    def change(rows: pandas.DataFrame) -> pandas.DataFrame:
        found = rows.index.get_loc(rows.query(condition).index[0])
        return value(column, what, found)(rows)

    return change


def twice_where(condition: str, **changed: object) -> Change:
    def change(rows: pandas.DataFrame) -> pandas.DataFrame:
        return pandas.concat([rows, rows.query(condition).iloc[[0]].assign(**changed)], ignore_index=True)

    return change


SOON = pandas.Timestamp(datetime(2100, 1, 1, tzinfo=UTC))
OF_EACH: dict[str, Change] = {
    "columns-complete": every("surplus", 0),
    "table-version": value("table_version", VERSION + 1),
    "file-of-a-batch": value("file", "copy of q.parquet"),
    "files-of-the-batch": value("missing", "groups/day=2026-05-28/q-000000000000.parquet"),
    "row-in-its-day": value("day", "2026-01-01"),
    "days-have-folders": value("day", FURTHER),
}
OWN: dict[str, dict[str, Change]] = {
    "usage": {
        "time-plausible": value("minute", SOON),
        "requests-counted": value("requests", -1),
        "request-bytes-plausible": value("bytes_beyond", -1),
        "usage-once": twice,
        "usage-was-checked": value("is_checked", False),
        "api-known": value("api", "Fetsch"),
        "version-in-schema": every("call", "1:999"),
        "header-of-version": value("headed_call", "3:12:1"),
        "header-certain": every("header_version", pandas.NA),
        "api-not-unknown": every("api", "unknown"),
        "software-known": every("client_software_name", pandas.NA),
    },
    "errors": {
        "time-plausible": value("minute", SOON),
        "responses-counted": value("responses", 0),
        "errors-once": twice,
        "api-known": value("api", "Fetsch"),
        "error-is-one": value("error_code", 0),
        "error-has-code": value("error_code", None),
    },
    "findings": {
        "time-plausible": value("last_captured_at", SOON),
        "finding-id": value("id", "9836"),
        "finding-connection": value("connection", "c"),
        "finding-published-once": twice,
        "rule-in-catalogue": value("rule", "kip1313/never-heard-of"),
        "finding-was-counted": value("is_counted", False),
        "message-given": value("message", ""),
        "kip-given": value("kip", ""),
        "section-given": value("section", ""),
        "level-known": value("level", "grave"),
        "role-known": value("role", "sender"),
        "occurrences-counted": value("occurrences", 0),
        "evidence-present": value("evidence", "{}"),
        "first-before-last": value("first_captured_at", SOON),
    },
    "coverage": {
        "time-plausible": value("captured_at", SOON),
        "covered-rule-in-catalogue": value("rule", "kip1313/never-heard-of"),
        "verdict-known": value("verdict", "perhaps"),
        "checks-counted": value("checks", 0),
        "coverage-once": twice,
        "violation-was-found": value("is_found", False),
        "checked-was-used": value("is_used", False),
    },
    "connections": {
        "time-plausible": value("changed_at", SOON),
        "connection-id": value("connection", "c"),
        "connection-changes-counted": value("changes", 0),
        "connection-changed-once": twice_where("closed_at.isna()"),
        "connection-closed-once": twice_where("closed_at.notna()", changed_at=SOON.replace(year=2026)),
        "closing-known": where("closed_at.notna()", "closing", "gone"),
        "ranges-told": value("has_ranges", False),
        "opened-before-changed": where("opened_at.notna()", "opened_at", SOON),
        "closing-has-time": where("closed_at.notna()", "closed_at", pandas.NaT),
    },
    "groups": {
        "time-plausible": value("changed_at", SOON),
        "protocol-known": value("protocol", "quorum"),
        "member-has-group-id": where("protocol == 'consumer'", "group_id", None),
        "member-has-member-id": where("protocol == 'consumer'", "member_id", None),
        "member-has-epoch": where("protocol == 'consumer'", "epoch", None),
        "member-has-error-code": where("protocol == 'consumer'", "error_code", None),
        "epoch-exists": where("protocol == 'consumer'", "epoch", -3),
        "heartbeat-version": value("api_version", -1),
        "member-changes-counted": value("changes", 0),
        "member-changed-once": twice,
        "ghost-decided": value("ghost", "perhaps"),
    },
    "brokers": {
        "time-plausible": value("last_seen", SOON),
        "showings-counted": value("changes", 0),
        "broker-shown-once": twice,
        "broker-is-endpoint": value("broker", "localhost"),
        "ranges-id": value("ranges_id", "none"),
        "ranges-named": value("is_named", False),
        "shown-first-before-last": value("first_seen", SOON),
    },
}
FAULTS = [
    (table, expectation, change)
    for table, own in OWN.items()
    for expectation, change in {**OF_EACH, **own}.items()
]


def failed(auditing: ModuleType, table: str, rows: pandas.DataFrame) -> dict[str, str]:
    suites = importlib.import_module("expectations.suites.archive_suites")
    layouts = {each.name: suites.TableLayout(each.schema.names, each.time) for each in TABLES}
    latest = datetime(2099, 1, 1, tzinfo=UTC)
    by_table = {
        suite.table: suite for suite in suites.archive_suites(layouts, VERSION, latest, default_schemas())
    }
    result = auditing.validate(by_table[table], rows)
    return {outcome.id: outcome.severity for outcome in result.outcomes if not outcome.success}


@pytest.mark.slow
def test_what_is_written_meets_every_expectation_and_each_is_asked(
    archive: Path, auditing: ModuleType
) -> None:
    results = auditing.audit_archive(archive, auditing.Days(), default_schemas())
    assert {result.table for result in results} == OWN.keys()
    for result in results:
        assert [outcome.id for outcome in result.outcomes if not outcome.success] == []
        assert {outcome.id for outcome in result.outcomes} == {*OF_EACH, *OWN[result.table]}
        assert all(outcome.meaning and outcome.action for outcome in result.outcomes)
        assert result.rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "expectation", "change"), FAULTS, ids=[f"{table}-{name}" for table, name, _ in FAULTS]
)
def test_each_fault_fails_its_own_expectation(
    tables: dict[str, pandas.DataFrame],
    auditing: ModuleType,
    table: str,
    expectation: str,
    change: Change,
) -> None:
    assert expectation in failed(auditing, table, change(tables[table]))


LOST = ("coverage", "files-of-the-batch")


def damaged(archive: Path, folder: Path) -> Path:
    return Path(shutil.copytree(archive, folder / "damaged"))


def named(auditing: ModuleType, folder: Path) -> set[tuple[str, str]]:
    results = auditing.audit_archive(folder, auditing.Days(), default_schemas())
    return {
        (result.table, outcome.id) for result in results for outcome in result.outcomes if not outcome.success
    }


def only(folder: Path, table: str, batch: int = 0) -> Path:
    (found,) = (folder / table).rglob(f"q-{batch:012}.parquet")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "faults"),
    [
        ("usage", {("coverage", "checked-was-used"), LOST}),
        (
            "coverage",
            {
                ("usage", "usage-was-checked"),
                ("findings", "finding-was-counted"),
                ("brokers", "files-of-the-batch"),
            },
        ),
        ("findings", {("coverage", "violation-was-found"), LOST}),
        ("brokers", {("connections", "ranges-told"), LOST}),
        ("connections", {LOST}),
        ("groups", {LOST}),
        ("errors", {LOST}),
    ],
)
def test_a_dropped_file_is_named(
    archive: Path, auditing: ModuleType, tmp_path: Path, table: str, faults: set[tuple[str, str]]
) -> None:
    folder = damaged(archive, tmp_path)
    only(folder, table).unlink()
    assert named(auditing, folder) == faults


@pytest.mark.slow
def test_a_copied_file_is_named(archive: Path, auditing: ModuleType, tmp_path: Path) -> None:
    folder = damaged(archive, tmp_path)
    original = only(folder, "findings")
    shutil.copy(original, original.with_name("q-000000000009.parquet"))
    # The copy says that other tables have files of its batch.
    assert named(auditing, folder) == {
        ("findings", "finding-published-once"),
        ("findings", "files-of-the-batch"),
    }
    shutil.copy(original, original.with_name("backup.parquet"))
    assert ("findings", "file-of-a-batch") in named(auditing, folder)


@pytest.mark.slow
def test_a_file_on_another_day_is_named(archive: Path, auditing: ModuleType, tmp_path: Path) -> None:
    folder = damaged(archive, tmp_path)
    other = folder / "usage" / "day=2026-01-01"
    other.mkdir()
    moved = only(folder, "usage")
    moved.rename(other / moved.name)
    assert named(auditing, folder) == {("usage", "row-in-its-day"), LOST}


@pytest.mark.slow
def test_rows_of_further_days_are_named_and_in_their_place(
    auditing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.archive.batch_files.MOST_DAYS", 0)
    Archive(str(tmp_path), default_schemas().api_names).write("q", 0, [judged(grouped())])
    assert {expectation for _, expectation in named(auditing, tmp_path)} - {"time-plausible"} == {
        "days-have-folders"
    }


@pytest.mark.slow
def test_another_releases_table_is_named(archive: Path, auditing: ModuleType, tmp_path: Path) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    folder = damaged(archive, tmp_path)
    file = only(folder, "coverage")
    rows = parquet.read_table(file, partitioning=None)
    rows = rows.append_column("since", [["2026"] * len(rows)])
    parquet.write_table(rows.replace_schema_metadata({b"kipwatch.archive": b"2"}), file)
    assert named(auditing, folder) == {("coverage", "columns-complete"), ("coverage", "table-version")}


@pytest.mark.slow
def test_an_archive_whose_days_were_merged_is_green(
    archive: Path, auditing: ModuleType, tmp_path: Path
) -> None:
    folder = damaged(archive, tmp_path)
    merged = Archive(str(folder), default_schemas().api_names).compact("q", before="2027-01-01", below=9)
    assert merged
    assert named(auditing, folder) == set()
    (lost,) = (folder / "groups").rglob("*.parquet")
    lost.unlink()
    assert named(auditing, folder) == {LOST}
