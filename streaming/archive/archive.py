"""Writes the archive: a file for each table, day and batch. A batch that is judged again replaces its files.

A file is named after the query (the ID that its checkpoint keeps) and the batch, so that a second query can
write into the same folder. It appears whole: it is written under a hidden name and renamed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from streaming.archive.compaction import compact
from streaming.archive.table import Batch, Table, Values, instant
from streaming.archive.tables import TABLES
from streaming.judging.report import Report
from streaming.user_error import UserError

_DAY: Final = "day="
_TENTH: Final = 100_000_000
"""Nanoseconds in a tenth of a second."""


class ArchiveNotWrittenError(RuntimeError):
    """A batch could not be archived. It is judged again."""


class Archive:
    """The tables in a folder: a path, or a URI that pyarrow knows, such as s3:// or hdfs://."""

    def __init__(self, folder: str, api_names: Mapping[int, str]) -> None:
        """Create the folder. Raises UserError if that is not possible."""
        self._folder, self._api_names = folder, api_names
        self._latest: int | None = None
        try:
            self._system, self._path = _opened(folder)
            self._system.create_dir(self._path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise UserError(f"cannot write the archive {folder}: {_reason(error)}") from error

    def write(self, query: str, batch_id: int, reports: Sequence[Report], at: int = 0) -> str:
        """Write the rows of a batch of a query. Raises ArchiveNotWrittenError.

        `at` is the latest capture, in nanoseconds; without it, it is taken from the reports. Returns its day.
        """
        batch = Batch(reports, self._api_names, at or _latest_capture(reports) or time.time_ns())
        file = f"{query}-{batch_id:012}.parquet"
        with self._explained():
            if self._latest is None or batch_id <= self._latest:
                self._delete(file)
            self._latest = batch_id
            for table in TABLES:
                self._write_table(table, batch, file)
        return instant(batch.at).date().isoformat()

    def compact(self, query: str, *, before: str, below: int) -> int:
        """Merge the files of a query's batches below a number, in the folders of days before a day.

        Returns how many files were merged. Raises ArchiveNotWrittenError.
        """
        with self._explained():
            return compact(self._system, self._path, TABLES, query, before=before, below=below)

    def forget(self, query: str) -> None:
        """Delete all files of a query. Raises ArchiveNotWrittenError."""
        with self._explained():
            for table in TABLES:
                files = fs.FileSelector(f"{self._path}/{table.name}", allow_not_found=True, recursive=True)
                for found in self._system.get_file_info(files):
                    if found.type is fs.FileType.File and found.base_name.startswith(f"{query}-"):
                        self._system.delete_file(found.path)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise ArchiveNotWrittenError(
                f"cannot write the archive {self._folder}: {_reason(error)}"
            ) from error

    def _write_table(self, table: Table, batch: Batch, file: str) -> None:
        for day, rows in _by_day(table, table.rows(batch)).items():
            folder = f"{self._path}/{table.name}/{_DAY}{day}"
            self._system.create_dir(folder, recursive=True)
            hidden = f"{folder}/.{file}"
            columns = pa.Table.from_pylist(rows, schema=table.schema)
            pq.write_table(columns, hidden, filesystem=self._system, compression="zstd")
            self._system.move(hidden, f"{folder}/{file}")

    def _delete(self, file: str) -> None:
        """Delete what an earlier attempt at a batch wrote, on whatever day."""
        for table in TABLES:
            days = fs.FileSelector(f"{self._path}/{table.name}", allow_not_found=True)
            paths = [f"{day.path}/{file}" for day in self._system.get_file_info(days)]
            for found in self._system.get_file_info(paths):
                if found.type is fs.FileType.File:
                    self._system.delete_file(found.path)


def _opened(folder: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a folder, and the folder's path there."""
    if "://" in folder:
        system, path = fs.FileSystem.from_uri(folder)
        return system, str(path)
    return fs.LocalFileSystem(), folder.rstrip("/") or "/"


def _by_day(table: Table, rows: Iterable[Values]) -> dict[str, list[Values]]:
    days: defaultdict[str, list[Values]] = defaultdict(list)
    for row in rows:
        days[row[table.time].date().isoformat()].append(row)
    return days


def _latest_capture(reports: Iterable[Report]) -> int:
    return max((tenth * _TENTH for report in reports for tenth in report.captured), default=0)


def _reason(error: Exception) -> str:
    """Return pyarrow's text without its remark on errno."""
    return str(error).partition(". Detail:")[0].splitlines()[0]
