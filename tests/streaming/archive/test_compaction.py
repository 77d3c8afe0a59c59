"""Compaction: the same rows in fewer files, whenever it was interrupted, and never the latest batch."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from decoders.schema.registry import default_schemas
from streaming.archive.archive import Archive, ArchiveNotWrittenError, DailyCompaction
from streaming.archive.tables import VERSION, VERSION_KEY
from streaming.judging.part import MINUTE
from streaming.judging.report import Report
from streaming.judging.usage import Usage, Use

NAMES = default_schemas().api_names
NOON = 29_700_000
"""A minute, at noon of 21 June 2026."""
DAY = 24 * 60
TODAY, TOMORROW = "2026-06-21", "2026-06-22"


def used(requests: int, minute: int = NOON) -> Report:
    return Report(0, usage=[Usage(Use(minute, "c", "L", None, None, "app", 3, 12), {2: requests})])


def requests(folder: Path) -> Counter[int]:
    table = ds.dataset(folder / "usage", partitioning="hive", format="parquet").to_table()
    return Counter(table["requests"].to_pylist())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "usage" / f"day={TODAY}").iterdir())


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Five batches of a day, of which each has other numbers, and one of another query."""
    archive = Archive(str(tmp_path), NAMES)
    for batch in range(5):
        assert archive.write("q", batch, [used(10 + batch)], at=NOON * MINUTE).day == TODAY
    Archive(str(tmp_path), NAMES).write("other", 0, [used(1)])
    return archive


ALL = Counter([1, *range(10, 15)])


def test_the_rows_of_a_past_day_are_in_one_file(archive: Archive, tmp_path: Path) -> None:
    assert archive.compact("q", before=TOMORROW, below=9) == 5
    assert files(tmp_path) == ["other-000000000000.parquet", "q-merged-000000000004.parquet"]
    assert requests(tmp_path) == ALL
    merged = pq.read_schema(tmp_path / "usage" / f"day={TODAY}" / "q-merged-000000000004.parquet")
    assert merged.metadata[VERSION_KEY] == str(VERSION).encode()


def test_a_merged_file_has_few_row_groups(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.archive.archive._ROWS_OF_GROUP", 2)
    archive.compact("q", before=TOMORROW, below=9)
    merged = pq.ParquetFile(tmp_path / "usage" / f"day={TODAY}" / "q-merged-000000000004.parquet").metadata
    assert [merged.row_group(number).num_rows for number in range(merged.num_row_groups)] == [2, 2, 1]


def test_the_latest_batch_is_left_for_it_may_be_judged_again(archive: Archive, tmp_path: Path) -> None:
    archive.compact("q", before=TOMORROW, below=4)
    assert files(tmp_path)[1:] == ["q-000000000004.parquet", "q-merged-000000000003.parquet"]
    archive.write("q", 4, [used(99)])
    assert requests(tmp_path) == Counter([1, 10, 11, 12, 13, 99])


def test_the_day_under_way_is_left(archive: Archive, tmp_path: Path) -> None:
    assert archive.compact("q", before=TODAY, below=9) == 0
    assert len(files(tmp_path)) == 6


def test_rows_that_come_late_are_merged_later(archive: Archive, tmp_path: Path) -> None:
    archive.compact("q", before=TOMORROW, below=9)
    archive.write("q", 20, [used(20), used(21, NOON + DAY)])
    assert archive.compact("q", before=TOMORROW, below=21) == 2
    assert files(tmp_path)[1:] == ["q-merged-000000000020.parquet"]
    assert requests(tmp_path) == ALL + Counter([20, 21])
    assert archive.compact("q", before=TOMORROW, below=21) == 0


@pytest.mark.parametrize("deleted", range(6))
def test_a_compaction_that_was_killed_is_completed(archive: Archive, tmp_path: Path, deleted: int) -> None:
    """Killed after the merged file appeared and `deleted` of its five sources were gone."""
    day, kept = tmp_path / "usage" / f"day={TODAY}", tmp_path / "kept"
    shutil.copytree(day, kept)
    archive.compact("q", before=TOMORROW, below=9)
    for number in range(deleted, 5):
        name = f"q-{number:012}.parquet"
        shutil.copy(kept / name, day / name)
    shutil.rmtree(kept)
    archive.compact("q", before=TOMORROW, below=9)
    assert files(tmp_path) == ["other-000000000000.parquet", "q-merged-000000000004.parquet"]
    assert requests(tmp_path) == ALL


def test_a_merged_file_that_was_not_finished_is_not_read(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "usage" / f"day={TODAY}" / ".q-merged-000000000004.parquet").write_bytes(b"PAR1")
    assert requests(tmp_path) == ALL
    archive.compact("q", before=TOMORROW, below=9)
    assert requests(tmp_path) == ALL


def test_a_merged_file_that_was_not_finished_is_deleted(archive: Archive, tmp_path: Path) -> None:
    """The one that takes its place holds later batches, too, and has another name."""
    for name in (".q-merged-000000000002.parquet", ".other-merged-000000000002.parquet"):
        (tmp_path / "usage" / f"day={TODAY}" / name).write_bytes(b"PAR1")
    archive.compact("q", before=TOMORROW, below=9)
    assert files(tmp_path) == [
        ".other-merged-000000000002.parquet",
        "other-000000000000.parquet",
        "q-merged-000000000004.parquet",
    ]


def test_compaction_runs_once_a_day(archive: Archive, tmp_path: Path) -> None:
    compaction = DailyCompaction(archive, lambda: (NOON + DAY) * MINUTE)
    for batch, day in ((5, TODAY), (6, TODAY)):
        compaction.after_batch("q", batch, day)
        compaction.wait()
    assert len(files(tmp_path)) == 6
    compaction.after_batch("q", 7, TOMORROW)
    compaction.wait()
    assert len(files(tmp_path)) == 2
    archive.write("q", 8, [used(30)])
    compaction.after_batch("q", 8, TOMORROW)
    compaction.wait()
    assert len(files(tmp_path)) == 3


def test_a_capture_of_the_future_does_not_keep_later_days_from_being_merged(
    archive: Archive, tmp_path: Path
) -> None:
    now = [NOON]
    compaction = DailyCompaction(archive, lambda: now[0] * MINUTE)
    for batch, day in ((5, "2200-01-01"), (6, TODAY)):
        compaction.after_batch("q", batch, day)
        compaction.wait()
    assert len(files(tmp_path)) == 6
    now[0] += DAY
    compaction.after_batch("q", 7, TOMORROW)
    compaction.wait()
    assert len(files(tmp_path)) == 2


def test_what_cannot_be_merged_is_said_and_stops_nothing(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "usage" / f"day={TODAY}" / "q-000000000002.parquet"
    broken.write_bytes(b"PAR1 no more")
    with pytest.raises(ArchiveNotWrittenError, match="cannot write the archive"):
        archive.compact("q", before=TOMORROW, below=9)
    said: list[str] = []
    monkeypatch.setattr("streaming.archive.archive.QUERY_LOG.warning", lambda event, **_: said.append(event))
    compaction = DailyCompaction(archive, lambda: (NOON + DAY) * MINUTE)
    compaction.after_batch("q", 9, TOMORROW)
    compaction.wait()
    assert said == ["archive-not-compacted"]
    assert len(files(tmp_path)) == 6
