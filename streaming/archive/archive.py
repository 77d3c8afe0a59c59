"""Writes the archive: a file for each table, day and batch.

`Archive` writes the batches of the query, `CaptureArchive` the reports of a capture as `check` makes them. A
file is named after the query (the ID that its checkpoint keeps) or the capture, and the batch, so that a
second query can write into the same folder. A file goes through these states:

| state | name | until |
|---|---|---|
| begun | hidden | all files of the batch are written |
| written | its batch | the batch is judged again, the capture is read again, or a compaction merges it |
| merged | the latest batch in it | a compaction merges it with further ones of the day |

`DailyCompaction` merges the files of past days once a day, beside the query.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from expectations.judging.finding import Finding
from streaming.archive.batch_files import SIBLINGS_KEY, BatchDays, siblings_text
from streaming.archive.compaction import compact
from streaming.archive.tables import TABLES, ArchivedBatch, ArchiveTable, Row, instant
from streaming.judging.report import TENTH, Report
from streaming.log import QUERY_LOG
from streaming.user_error import UserError

_DAY: Final = "day="
ROWS: Final = 10_000
"""Rows that are in memory together: strangers decide how many findings a batch has."""
REPORTS: Final = 32
"""Reports that are written together."""


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

    def _delete(self, file: str) -> None:
        """Delete the files of an earlier attempt at a batch, on any day."""
        for table in TABLES:
            days = fs.FileSelector(f"{self._path}/{table.name}", allow_not_found=True)
            paths = [f"{day.path}/{file}" for day in self._system.get_file_info(days)]
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
        """Record that a batch was written, whose latest capture was on a day such as `2026-06-21`."""
        # Otherwise, after a capture from the future, the days until then would never be merged.
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
        try:
            self._archive.forget(self._name)
        except ArchiveNotWrittenError as error:
            raise UserError(str(error)) from error

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
        try:
            self._archive.write(self._name, self._batches, self._waiting, self._at)
        except ArchiveNotWrittenError as error:
            raise UserError(str(error)) from error
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
    """Return pyarrow's text without its remark on errno."""
    return str(error).partition(". Detail:")[0].splitlines()[0]
