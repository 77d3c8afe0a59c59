"""The archive: what batches come to in Parquet, and what a batch that is judged again leaves."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.occurrence import Evidence
from expectations.conversation.record_windows import windows_of
from expectations.judging.judge import Judge
from streaming.archive.archive import Archive, ArchiveNotWrittenError
from streaming.archive.tables import TABLES, VERSION, VERSION_KEY
from streaming.judging.bucket_step import BucketStep
from streaming.judging.report import Report
from streaming.judging.usage import MINUTE, Usage, Use
from streaming.state.bucket import Bucket
from streaming.user_error import UserError
from tests.exchange import Exchange
from tests.streaming.captures import conforming, violating
from tests.streaming.judging.travelling import travelled

NAMES = default_schemas().api_names
PAGE = Path(__file__).parents[3] / "docs/archive.md"
NOON = 29_700_000
"""A minute, at noon of a day."""


def judged(exchange: Exchange) -> Report:
    placed = [(record, Evidence.in_file("exchange", record)) for record in exchange.records]
    step = BucketStep(Judge(NAMES), NAMES, counts_usage=True)
    report = step.process(0, Bucket(), travelled(windows_of(default_schemas(), placed)))
    report.captured = {record.captured_at // 100_000_000: 1 for record in exchange.records}
    return report


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
        for rule, verdicts in report.checks.items()
        for verdict, count in verdicts.items()
    }
    assert report.findings


def test_buckets_of_a_batch_add_up_and_days_are_partitions(tmp_path: Path) -> None:
    reports = [used(NOON, 2), used(NOON, 3, {6: 1}), used(NOON + 24 * 60, 5)]
    Archive(str(tmp_path), NAMES).write("q", 7, reports)
    assert [(row["day"], row["api"], row["requests"]) for row in rows(tmp_path, "usage")] == [
        ("2026-06-21", "Metadata", 5),
        ("2026-06-22", "Metadata", 5),
    ]
    assert [(row["error_code"], row["responses"]) for row in rows(tmp_path, "errors")] == [(6, 1)]
    assert files(tmp_path, "usage")[0] == "day=2026-06-21/q-000000000007.parquet"


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
    with pytest.raises(UserError, match=r"cannot write the archive .*file/archive: ") as raised:
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


def page_queries() -> list[str]:
    """The queries of the page, without the code that loads a table."""
    page = PAGE.read_text().partition("## Queries\n")[2]
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[1:]


@pytest.mark.parametrize("query", page_queries())
def test_the_queries_of_the_page_find_rows(query: str, tmp_path: Path) -> None:
    """Each finds something in an archive with an old client, a nameless one, an error and a finding."""
    old = Use(NOON, "c", "L", "librdkafka", "0.11", "old", 1, 2)
    nameless = Use(NOON, "c", "L", None, None, None, 3, 0)
    usage = [Usage(old, {1: 4, 3: 1}), Usage(nameless, {1: 2}, {6: 1})]
    never = Report(1, usage=usage, checks={"kip1313/instance-id-zero": {"undecided": 1}})
    broken = judged(violating())
    for finding in broken.findings:
        finding.first_captured_at = NOON * MINUTE
    Archive(str(tmp_path), NAMES).write("q", 0, [broken, never])
    names: dict[str, Any] = {
        table.name: ds.dataset(tmp_path / table.name, partitioning="hive").to_table().to_pandas()
        for table in TABLES
    }
    *steps, last = ast.parse(query).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(steps, []), "page", "exec"), names)
    assert len(eval(compile(ast.Expression(last.value), "page", "eval"), names))
