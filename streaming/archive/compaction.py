"""Compaction: merges the files that the batches of a past day left into one for each table and query.

A merged file is named after the highest batch in it. After a crash the names alone say what to do: files of
batches up to that one, and merged files of lower ones, are in it already. The latest batch may be judged
again, so it is never merged. Rows that come late for a day are merged when it is compacted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from streaming.archive.batch_files import (
    MERGED,
    SIBLINGS_KEY,
    BatchFile,
    batch_file,
    siblings_of,
    siblings_text,
)
from streaming.archive.tables import ArchiveTable

_ROWS: Final = 100_000
"""Rows of a row group of a merged file."""


def compact(
    system: Any, root: str, tables: Iterable[ArchiveTable], query: str, *, before: str, below: int
) -> int:
    """Merge the files of a query in the folders of days before a day, such as `2026-06-21`.

    Only batches below a number are merged. Returns how many files were merged. Raises OSError and
    ArrowException.
    """
    count = 0
    for table in tables:
        days = fs.FileSelector(f"{root}/{table.name}", allow_not_found=True)
        for day in system.get_file_info(days):
            if day.type is fs.FileType.Directory and day.base_name.removeprefix("day=") < before:
                count += _compact_day(system, day.path, table, query, below)
    return count


def _compact_day(system: Any, day: str, table: ArchiveTable, query: str, below: int) -> int:
    found = system.get_file_info(fs.FileSelector(day))
    # What a compaction began that was killed: the next one may have another name.
    for info in found:
        if info.base_name.startswith(f".{query}-{MERGED}"):
            system.delete_file(info.path)
    files = [file for file in _files_of(query, found) if file.batch < below]
    done = max((file.batch for file in files if file.is_merged), default=-1)
    for file in files:
        if file.batch < done or (file.batch == done and not file.is_merged):
            system.delete_file(file.path)
    left = [file for file in files if file.batch > done or (file.batch == done and file.is_merged)]
    if len(left) < 2:
        return 0
    _merge(system, day, table, left)
    return len(left)


def _files_of(query: str, found: Iterable[Any]) -> Iterator[BatchFile]:
    """Yield the files of a query; hidden ones are not finished."""
    for info in found:
        file = batch_file(info.path)
        if file is not None and file.query == query:
            yield file


def _merge(system: Any, day: str, table: ArchiveTable, files: Sequence[BatchFile]) -> None:
    """Write the merged file, make it visible, and then delete the files that were merged."""
    highest = max(file.batch for file in files)
    name = f"{files[0].query}-{MERGED}{highest:012}.parquet"
    ordered = sorted(files, key=lambda file: file.batch)
    rows = ds.dataset(
        [file.path for file in ordered], schema=table.schema, filesystem=system, format="parquet"
    )
    siblings = siblings_text(each for file in ordered for each in siblings_of(file.path, system))
    with pq.ParquetWriter(f"{day}/.{name}", table.schema, filesystem=system, compression="zstd") as writer:
        for batch in _large(rows.to_batches(batch_size=_ROWS)):
            writer.write_table(batch)
        writer.add_key_value_metadata({SIBLINGS_KEY: siblings})
    system.move(f"{day}/.{name}", f"{day}/{name}")
    for file in files:
        if file.path != f"{day}/{name}":
            system.delete_file(file.path)


def _large(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.Table]:
    """Join the small batches of small files, so that a merged file has few row groups."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= _ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
