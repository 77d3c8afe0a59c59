"""Writes the archive: a file for each table, day and batch. A batch that is judged again replaces its files.

A file is named after the query (the ID that its checkpoint keeps) and the batch, so that a second query can
write into the same folder. It appears whole: it is written under a hidden name and renamed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from expectations.judging.finding import Finding
from streaming.archive.batch_days import BatchDays
from streaming.archive.compaction import compact
from streaming.archive.siblings import SIBLINGS_KEY, siblings_text
from streaming.archive.table import Batch, Table, Values, instant
from streaming.archive.tables import TABLES
from streaming.judging.report import Report
from streaming.user_error import UserError

_DAY: Final = "day="
ROWS: Final = 10_000
"""Rows that are held and written together: strangers decide how many findings a batch has."""
_TENTH: Final = 100_000_000
"""Nanoseconds in a tenth of a second."""


class ArchiveNotWrittenError(RuntimeError):
    """A batch could not be archived. It is judged again."""


class Written(NamedTuple):
    """The day of the latest capture of a batch, and how many rows are in the folder of further days."""

    day: str
    further: int


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

    def write(
        self,
        query: str,
        batch_id: int,
        reports: Sequence[Report],
        at: int = 0,
        findings: Iterable[Finding] = (),
    ) -> Written:
        """Write the rows of a batch of a query. Raises ArchiveNotWrittenError.

        `at` is the latest capture, in nanoseconds; without it, it is taken from the reports. `findings` are
        those that the reports do not hold; they are read once.
        """
        found = chain(findings, chain.from_iterable(report.findings for report in reports))
        at = at or _latest_capture(reports) or time.time_ns()
        batch, days = Batch(reports, found, self._api_names, at), BatchDays(reports)
        file = f"{query}-{batch_id:012}.parquet"
        with self._explained():
            if self._latest is None or batch_id <= self._latest:
                self._delete(file)
            self._latest = batch_id
            self._write_files(batch, days, file)
        return Written(instant(batch.at).date().isoformat(), days.further)

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

    def _write_files(self, batch: Batch, days: BatchDays, file: str) -> None:
        """Write a file for each table and day. Each lists the folders of all."""
        with ExitStack() as stack:
            writers: dict[str, pq.ParquetWriter] = {}
            for table in TABLES:
                rows = iter(table.rows(batch))
                while some := list(islice(rows, ROWS)):
                    for day, of_day in _by_day(table, some, days).items():
                        folder = f"{table.name}/{_DAY}{day}"
                        if folder not in writers:
                            writers[folder] = stack.enter_context(self._writer(table, folder, file))
                        writers[folder].write_table(pa.Table.from_pylist(of_day, schema=table.schema))
            for writer in writers.values():
                writer.add_key_value_metadata({SIBLINGS_KEY: siblings_text(writers)})
        for folder in writers:
            self._system.move(f"{self._path}/{folder}/.{file}", f"{self._path}/{folder}/{file}")

    def _writer(self, table: Table, folder: str, file: str) -> pq.ParquetWriter:
        """Begin a file under its hidden name."""
        self._system.create_dir(f"{self._path}/{folder}", recursive=True)
        hidden = f"{self._path}/{folder}/.{file}"
        return pq.ParquetWriter(hidden, table.schema, filesystem=self._system, compression="zstd")

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


def _by_day(table: Table, rows: Iterable[Values], days: BatchDays) -> dict[str, list[Values]]:
    by_day: defaultdict[str, list[Values]] = defaultdict(list)
    for row in rows:
        by_day[days.folder(row[table.time].date().isoformat())].append(row)
    return by_day


def _latest_capture(reports: Iterable[Report]) -> int:
    return max((tenth * _TENTH for report in reports for tenth in report.captured), default=0)


def _reason(error: Exception) -> str:
    """Return pyarrow's text without its remark on errno."""
    return str(error).partition(". Detail:")[0].splitlines()[0]
