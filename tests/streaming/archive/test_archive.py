"""The archive: the rows of batches in Parquet, also of batches that are judged again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from decoders.schema.registry import default_schemas
from expectations.judging.judge import Judge
from expectations.report.coverage import by_verdict
from expectations.suites import FURTHER
from streaming.archive.archive import Archive, ArchiveNotWrittenError
from streaming.archive.batch_files import MOST_DAYS
from streaming.archive.tables import TABLES, VERSION, VERSION_KEY
from streaming.judging.changes import Changes
from streaming.judging.part import MINUTE
from streaming.judging.report import Report
from streaming.judging.step import BucketStep
from streaming.judging.usage import Usage, Use
from streaming.state.bucket import Bucket
from streaming.user_error import UserError
from tests.exchange import SOFTWARE, Exchange, advertisement
from tests.streaming.captures import conforming, violating
from tests.streaming.judging.travelling import travelled, windows

NAMES, APIS = default_schemas().api_names, default_schemas().by_key
PAGE = Path(__file__).parents[3] / "docs/archive.md"
NOON = 29_700_000
"""A minute, at noon of a day."""


def judged(exchange: Exchange) -> Report:
    step = BucketStep(Judge(NAMES), APIS, counts_usage=True)
    report = step.process(0, Bucket(), travelled(windows(exchange)))
    report.captured = {record.captured_at // 100_000_000: 1 for record in exchange.records}
    return report


def grouped() -> Exchange:
    """A group that goes from the classic protocol to the new one, whose member vanishes."""
    exchange, member = Exchange(), "aW5zdGFuY2UtbnVtYmVyMQ"
    exchange.negotiate(client_id="app")
    exchange.request("JoinGroup", 9, {"groupId": "orders"}, client_id="app")
    beat = {"groupId": "orders", "memberId": member, "memberEpoch": 4}
    request = exchange.request("ConsumerGroupHeartbeat", 1, beat, client_id="app")
    exchange.respond(request, {"memberId": member, "memberEpoch": 4, "heartbeatIntervalMs": 3_000})
    exchange.close()
    return exchange


def upgraded() -> Exchange:
    """A broker of the same cluster that supports other versions."""
    exchange = Exchange(connection=b"d" * 16, server="10.0.0.3:9092")
    request = exchange.request("ApiVersions", 4, SOFTWARE)
    exchange.respond(
        request, advertisement() | {"apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}
    )
    return exchange


def silent() -> Exchange:
    """A client that never asks for the versions."""
    exchange = Exchange(connection=b"s" * 16)
    exchange.request("Metadata", 1, client_id="silent")
    exchange.close()
    return exchange


def used(minute: int, requests: int, errors: dict[int, int] | None = None) -> Report:
    use = Use(minute, "c", "L", "librdkafka", "2.3.0", "app", 3, 12)
    return Report(0, usage=[Usage(use, {2: requests}, errors or {})])


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ds.dataset(folder / table, partitioning="hive").to_table().to_pylist()
    return found


def files(folder: Path, table: str) -> list[str]:
    return sorted(str(path.relative_to(folder / table)) for path in (folder / table).rglob("*.parquet"))


def test_the_tables_hold_what_the_report_counts(tmp_path: Path) -> None:
    report = judged(violating())
    Archive(str(tmp_path / "new"), NAMES).write("q", 0, [report])
    folder = tmp_path / "new"
    requests = sum(kinds.get("request", 0) for kinds in report.frames.values())
    assert sum(row["requests"] for row in rows(folder, "usage")) == requests
    assert {row["id"] for row in rows(folder, "findings")} == {finding.id for finding in report.findings}
    assert {(row["rule"], row["verdict"]): row["checks"] for row in rows(folder, "coverage")} == {
        (rule, verdict): count
        for rule, rulings in report.checks.items()
        for verdict, count in by_verdict(rulings).items()
    }
    assert report.findings


def test_a_connection_its_member_and_its_broker_have_rows(tmp_path: Path) -> None:
    Archive(str(tmp_path), NAMES).write("q", 0, [judged(grouped())])
    (connection,) = rows(tmp_path, "connections")
    assert (connection["client_software_name"], connection["client_id"]) == ("tester", "app")
    assert (connection["closing"], connection["closed_by_broker"]) == ("fin", False)
    assert connection["opened_at"] < connection["closed_at"] == connection["changed_at"]
    (broker,) = rows(tmp_path, "brokers")
    assert broker["ranges_id"] == connection["ranges_id"]
    assert {"api": "ApiVersions", "api_key": 18, "lowest": 0, "highest": 6} in broker["ranges"]
    classic, member = sorted(rows(tmp_path, "groups"), key=lambda row: str(row["protocol"]))
    assert (classic["protocol"], classic["member_id"], classic["ghost"]) == ("classic", None, False)
    assert (member["protocol"], member["epoch"], member["ghost"]) == ("consumer", 4, True)
    assert {row["connection"] for row in (classic, member)} == {connection["connection"]}


def test_what_a_broker_shows_to_connections_of_several_buckets_is_one_row(tmp_path: Path) -> None:
    Archive(str(tmp_path), NAMES).write("q", 0, [judged(grouped()), judged(grouped()), judged(upgraded())])
    found = rows(tmp_path, "brokers")
    assert sorted((row["broker"], row["changes"]) for row in found) == [
        ("10.0.0.2:9092", 2),
        ("10.0.0.3:9092", 1),
    ]


def test_changes_that_are_not_described_are_a_number(tmp_path: Path) -> None:
    reports = [Report(bucket, changes=Changes(further=(3, 2, 0))) for bucket in range(2)]
    Archive(str(tmp_path), NAMES).write("q", 0, reports)
    for table, count in (("connections", 6), ("groups", 4)):
        (row,) = rows(tmp_path, table)
        assert (row["changes"], row["folded"], row["connection"]) == (count, True, None)
    assert not (tmp_path / "brokers").exists()


def test_buckets_of_a_batch_add_up_and_days_are_partitions(tmp_path: Path) -> None:
    reports = [used(NOON, 2), used(NOON, 3, {6: 1}), used(NOON + 24 * 60, 5)]
    Archive(str(tmp_path), NAMES).write("q", 7, reports)
    assert [(row["day"], row["api"], row["requests"]) for row in rows(tmp_path, "usage")] == [
        ("2026-06-21", "Metadata", 5),
        ("2026-06-22", "Metadata", 5),
    ]
    assert [(row["error_code"], row["responses"]) for row in rows(tmp_path, "errors")] == [(6, 1)]
    assert files(tmp_path, "usage")[0] == "day=2026-06-21/q-000000000007.parquet"


def of_days(days: Iterable[int], frames: int) -> Report:
    """Requests of days after 21 June 2026, `frames` of each."""
    minutes = [NOON + 24 * 60 * day for day in days]
    report = Report(0, usage=[usage for minute in minutes for usage in used(minute, frames).usage])
    report.captured = {minute * MINUTE // 100_000_000: frames for minute in minutes}
    return report


def test_a_backlog_of_a_month_has_a_folder_for_each_day(tmp_path: Path) -> None:
    written = Archive(str(tmp_path), NAMES).write("q", 0, [of_days(range(31), 2)])
    assert written == ("2026-07-21", 0)
    assert [row["day"] for row in rows(tmp_path, "usage")] == [
        str(row["minute"].date()) for row in rows(tmp_path, "usage")
    ]
    assert len(files(tmp_path, "usage")) == 31


def test_rows_of_very_many_days_share_a_folder_and_none_is_lost(tmp_path: Path) -> None:
    """A crafted block has a frame on each of many days; the frames of today are more, and come last."""
    crafted, today = of_days(range(10, MOST_DAYS + 60), 1), of_days([0], 5)
    written = Archive(str(tmp_path), NAMES).write("q", 0, [crafted, today])
    assert written.further == 51
    found = rows(tmp_path, "usage")
    assert len(files(tmp_path, "usage")) == MOST_DAYS + 1
    assert sum(row["requests"] for row in found) == MOST_DAYS + 50 + 5
    assert [row["requests"] for row in found if row["day"] == "2026-06-21"] == [5]
    further = [row["minute"].date() for row in found if row["day"] == FURTHER]
    assert len(further) == len(set(further)) == 51


def test_rows_of_days_without_frames_take_the_folders_that_are_left(tmp_path: Path) -> None:
    """A finding that is published again lies on an earlier day."""
    reports = [of_days(range(MOST_DAYS - 1), 2), used(NOON - 24 * 60, 3), used(NOON - 48 * 60, 4)]
    assert Archive(str(tmp_path), NAMES).write("q", 0, reports).further == 1
    days = {row["requests"]: row["day"] for row in rows(tmp_path, "usage")}
    assert (days[3], days[4]) == ("2026-06-20", FURTHER)


def test_a_batch_that_is_judged_again_replaces_its_files_on_every_day(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path), NAMES)
    archive.write("q", 1, [used(NOON, 2)])
    archive.write("q", 2, [used(NOON, 4), used(NOON + 24 * 60, 1)])
    for again in (archive, Archive(str(tmp_path), NAMES)):
        again.write("q", 2, [used(NOON, 8)])
        assert sorted(row["requests"] for row in rows(tmp_path, "usage")) == [2, 8]


def test_another_query_replaces_nothing(tmp_path: Path) -> None:
    for query in ("p", "q"):
        Archive(str(tmp_path), NAMES).write(query, 0, [used(NOON, 2)])
    assert sum(row["requests"] for row in rows(tmp_path, "usage")) == 4


def test_a_batch_without_rows_writes_no_file(tmp_path: Path) -> None:
    Archive(str(tmp_path), NAMES).write("q", 0, [Report(0)])
    assert list(tmp_path.iterdir()) == []


def test_each_file_says_the_version_of_its_table(tmp_path: Path) -> None:
    Archive(str(tmp_path), NAMES).write("q", 0, [judged(conforming()), used(NOON, 1, {6: 1})])
    found = list(tmp_path.rglob("*.parquet"))
    assert found
    for path in found:
        assert pq.read_schema(path).metadata[VERSION_KEY] == str(VERSION).encode()


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reason = r"file/archive: Cannot create directory '.*': Not a directory$"
    with pytest.raises(UserError, match=f"cannot write the archive .*{reason}") as raised:
        Archive(str(tmp_path / "file" / "archive"), NAMES)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_written_fails_the_batch_and_is_written_when_it_is_judged_again(
    tmp_path: Path,
) -> None:
    archive = Archive(str(tmp_path), NAMES)
    (tmp_path / "usage").touch()
    with pytest.raises(ArchiveNotWrittenError, match="cannot write the archive"):
        archive.write("q", 0, [used(NOON, 2)])
    (tmp_path / "usage").unlink()
    archive.write("q", 0, [used(NOON, 2)])
    assert [row["requests"] for row in rows(tmp_path, "usage")] == [2]


def test_the_page_describes_every_column() -> None:
    page = PAGE.read_text()
    for table in TABLES:
        section = page.partition(f"## {table.name}\n")[2].partition("\n## ")[0]
        undescribed = [name for name in table.schema.names if f"`{name}`" not in section]
        assert undescribed == [], table.name


def archive_of_everything(folder: Path) -> None:
    """Write an archive of an old client, a nameless one, an error, a finding and groups."""
    old = Use(NOON, "c", "L", "librdkafka", "0.11", "old", 1, 2)
    nameless = Use(NOON, "c", "L", None, None, None, 3, 0)
    usage = [Usage(old, {1: 4, 3: 1}), Usage(nameless, {1: 2}, {6: 1})]
    never = Report(1, usage=usage, checks_at={"L": {"kip1313/instance-id-zero": {"undecided": 1}}})
    broken = judged(violating())
    for finding in broken.findings:
        finding.first_captured_at = NOON * MINUTE
    Archive(str(folder), NAMES).write(
        "q", 0, [broken, never, judged(grouped()), judged(upgraded()), judged(silent())]
    )


def page_queries() -> list[str]:
    """The queries of the page, without the code that loads a table."""
    page = PAGE.read_text().partition("## Queries with pandas\n")[2]
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[1:]


@pytest.mark.parametrize("query", page_queries())
def test_the_queries_of_the_page_find_rows(query: str, tmp_path: Path) -> None:
    """Each finds something in an archive of an old client, a nameless one, an error, a finding and groups."""
    archive_of_everything(tmp_path)
    names: dict[str, Any] = {
        table.name: ds.dataset(tmp_path / table.name, partitioning="hive").to_table().to_pandas()
        for table in TABLES
    }
    *steps, last = ast.parse(query).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(steps, []), "page", "exec"), names)
    assert len(eval(compile(ast.Expression(last.value), "page", "eval"), names))
