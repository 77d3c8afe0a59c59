"""Writes the archive: a file for each table, day and batch.

`Archive` writes the batches of the query, `CaptureArchive` the reports of a capture as `check` makes them. A
file is named after the query (the ID that its checkpoint keeps) or the capture, and the batch, so that a
second query can write into the same folder. A file goes through these states:

| state | name | until |
|---|---|---|
| begun | hidden | all files of the batch are written |
| written | its batch | the batch is judged again, the capture is read again, or a compaction merges it |
| merged | the latest batch in it | a compaction merges it with further ones of the day |

`DailyCompaction` merges the files of past days once a day, beside the query: the files of a day become one
for each table and query. A merged file is named after the highest batch in it. So names tell what a crash
left undeleted: files of batches up to that one, and merged files of lower ones, are in it already. The latest
batch is never merged, since it may be judged again. The next day's compaction merges rows that came late.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from expectations.judging.finding import Finding
from streaming.archive.batch_files import (
    MERGED,
    SIBLINGS_KEY,
    BatchDays,
    BatchFile,
    batch_file,
    siblings_of,
    siblings_text,
)
from streaming.archive.tables import TABLES, ArchivedBatch, ArchiveTable, Row, instant
from streaming.judging.report import TENTH, Report
from streaming.log import QUERY_LOG
from streaming.user_error import UserError

_DAY: Final = "day="
_ERRNO: Final = re.compile(r"\. Detail: \[errno \d+\] ")
ROWS: Final = 10_000
"""Maximum number of rows in memory: clients decide how many findings a batch has."""
REPORTS: Final = 32
"""Reports of a capture that are written as one batch."""
_ROWS_OF_GROUP: Final = 100_000
"""Rows of a row group of a merged file."""


class ArchiveNotWrittenError(UserError):
    """A batch could not be archived. The query judges it again."""


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

        `at` is the time of the latest capture, in nanoseconds, by default that of the reports. `findings` are
        those that the reports do not hold; they are read once.
        """
        found = chain(findings, chain.from_iterable(report.findings for report in reports))
        at = at or _latest_capture(reports) or time.time_ns()
        batch, days = ArchivedBatch(reports, found, self._api_names, at), BatchDays(reports)
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
            count = 0
            for table in TABLES:
                for day in self._days(table):
                    if day.base_name.removeprefix(_DAY) < before:
                        count += _compact_day(self._system, day.path, table, query, below)
            return count

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

    def _write_files(self, batch: ArchivedBatch, days: BatchDays, file: str) -> None:
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

    def _writer(self, table: ArchiveTable, folder: str, file: str) -> pq.ParquetWriter:
        """Begin a file under its hidden name."""
        self._system.create_dir(f"{self._path}/{folder}", recursive=True)
        hidden = f"{self._path}/{folder}/.{file}"
        return pq.ParquetWriter(hidden, table.schema, filesystem=self._system, compression="zstd")

    def _days(self, table: ArchiveTable) -> Iterator[Any]:
        """Yield the folders of a table's days, as pyarrow describes them."""
        selector = fs.FileSelector(f"{self._path}/{table.name}", allow_not_found=True)
        for info in self._system.get_file_info(selector):
            if info.type is fs.FileType.Directory:
                yield info

    def _delete(self, file: str) -> None:
        """Delete the files of an earlier attempt at a batch, on any day."""
        for table in TABLES:
            paths = [f"{day.path}/{file}" for day in self._days(table)]
            for found in self._system.get_file_info(paths):
                if found.type is fs.FileType.File:
                    self._system.delete_file(found.path)


class DailyCompaction:
    """Starts a compaction, in a thread, when the first batch of a day was written and none is under way."""

    def __init__(self, archive: Archive, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` returns nanoseconds since the epoch."""
        self._archive, self._clock = archive, clock
        self._day = ""
        self._thread: threading.Thread | None = None

    def after_batch(self, query: str, batch_id: int, day: str) -> None:
        """Record that a batch was written. `day` is that of its latest capture, such as `2026-06-21`."""
        # Otherwise a capture from the future would stop compaction until that day.
        day = min(day, instant(self._clock()).date().isoformat())
        if day <= self._day or (self._thread is not None and self._thread.is_alive()):
            return
        self._day = day
        self._thread = threading.Thread(
            target=self._compact, args=(query, batch_id, day), name="kipwatch-compaction", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the compaction under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def _compact(self, query: str, batch_id: int, day: str) -> None:
        try:
            count = self._archive.compact(query, before=day, below=batch_id)
        except ArchiveNotWrittenError as error:
            QUERY_LOG.warning("archive-not-compacted", line=str(error))
        else:
            QUERY_LOG.info("archive-compacted", before=day, files=count)


class CaptureArchive:
    """Writes the reports of one capture and then its findings. Reading it again replaces its files."""

    def __init__(self, folder: str, api_names: Mapping[int, str]) -> None:
        """Create the folder. Raises UserError if that is not possible."""
        self._archive = Archive(folder, api_names)
        self._name = ""
        self._batches = self._at = 0
        self._waiting: list[Report] = []

    def begin(self, run: int) -> None:
        """Delete the files of an earlier reading of the capture; `run` is the ID of its run."""
        self._name = f"capture-{run:016x}"
        self._archive.forget(self._name)

    def add(self, report: Report, at: int) -> None:
        """Add a report without its findings, which may still grow. `at` is the time of the latest capture."""
        self._waiting.append(msgspec.structs.replace(report, findings=[]))
        self._at = at
        if len(self._waiting) >= REPORTS:
            self._write()

    def finish(self, findings: Sequence[Finding]) -> None:
        """Add the findings of the whole capture, and write the last batch."""
        self._waiting.append(Report(0, findings=list(findings)))
        self._write()

    def _write(self) -> None:
        self._archive.write(self._name, self._batches, self._waiting, self._at)
        self._waiting.clear()
        self._batches += 1


def _opened(folder: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a folder, and the folder's path there."""
    if "://" in folder:
        system, path = fs.FileSystem.from_uri(folder)
        return system, str(path)
    return fs.LocalFileSystem(), folder.rstrip("/") or "/"


def _by_day(table: ArchiveTable, rows: Iterable[Row], days: BatchDays) -> dict[str, list[Row]]:
    by_day: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_day[days.folder(row[table.time].date().isoformat())].append(row)
    return by_day


def _latest_capture(reports: Iterable[Report]) -> int:
    return max((tenth * TENTH for report in reports for tenth in report.captured), default=0)


def _reason(error: Exception) -> str:
    """Return what pyarrow could not do, and why, in a line without numbers of errors."""
    text = getattr(error, "strerror", None) or str(error)
    return _ERRNO.sub(": ", text.partition("\n")[0])


def _compact_day(system: Any, day: str, table: ArchiveTable, query: str, below: int) -> int:
    """Merge a query's files of one table and day. Returns how many were merged."""
    found = system.get_file_info(fs.FileSelector(day))
    # Left by a compaction that was killed: the next one may write under another name.
    for info in found:
        if info.base_name.startswith(f".{query}-{MERGED}"):
            system.delete_file(info.path)
    files = [file for file in _files_of(query, found) if file.batch < below]
    done = max((file.batch for file in files if file.is_merged), default=-1)
    left = []
    for file in files:
        if file.batch > done or (file.batch == done and file.is_merged):
            left.append(file)
        else:
            system.delete_file(file.path)
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
        for batch in _large(rows.to_batches(batch_size=_ROWS_OF_GROUP)):
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
        if rows >= _ROWS_OF_GROUP:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
