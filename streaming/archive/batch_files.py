"""The files of an archive: their names, the folders of their days, and which of them are missing.

A batch writes a file for each table and day that it has rows of. The file's name has the query and the
batch, and says whether it is merged of several batches.

The metadata of each file lists the folders of all files of its batch, its *siblings*: as long as one file of
a batch is there, it tells which others are missing. A merged file lists what the files in it listed.

A batch has folders for at most MOST_DAYS days, since a file is open for each of them, and a crafted block may
have frames of thousands of days. Rows of further days go to the folder of the day FURTHER, with their own
times.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from expectations.suites import FURTHER
from streaming.archive.tables import EPOCH
from streaming.judging.report import Report
from streaming.user_error import UserError

MERGED: Final = "merged-"
_NAME: Final = re.compile(r"(?P<query>.+?)-(?P<merged>merged-)?(?P<batch>\d{12})\.parquet")
SIBLINGS_KEY: Final = b"kipwatch.files"
"""The key of a file's metadata that lists the folders of its batch, such as `usage/day=2026-06-21`."""
_SEPARATOR: Final = b","
_FIRST: Final = "coverage"
"""The table whose files are examined first: nearly every batch has rows of it."""
MOST_DAYS: Final = 100
"""Maximum number of days of a batch that have folders. Each may have seven files open, one a table."""
_TENTHS_OF_A_DAY: Final = 24 * 60 * 60 * 10


class BatchFile(NamedTuple):
    """A file of a batch, or a merged one of all batches up to that number."""

    path: str
    query: str
    batch: int
    is_merged: bool


def batch_file(path: str) -> BatchFile | None:
    """Read the name of a file; None for one that no batch wrote, or that is not finished."""
    base = path.rpartition("/")[2]
    name = _NAME.fullmatch(base)
    if name is None or base.startswith("."):
        return None
    return BatchFile(path, name["query"], int(name["batch"]), name["merged"] is not None)


class BatchDays:
    """Chooses the folders of a batch's rows. `further` counts rows of days without one."""

    def __init__(self, reports: Iterable[Report]) -> None:
        """Days with most frames get folders first, so that a few frames cannot take all folders."""
        frames: Counter[int] = Counter()
        for report in reports:
            for tenth, count in report.captured.items():
                frames[tenth // _TENTHS_OF_A_DAY] += count
        self._days = {
            (EPOCH + timedelta(days=day)).date().isoformat() for day, _ in frames.most_common(MOST_DAYS)
        }
        self.further = 0

    def folder(self, day: str) -> str:
        """Return the day whose folder takes a row of `day`, such as `2026-06-21`."""
        if day not in self._days:
            if len(self._days) >= MOST_DAYS:
                self.further += 1
                return FURTHER
            self._days.add(day)
        return day


def siblings_text(folders: Iterable[str]) -> bytes:
    """Return folders as metadata."""
    return _SEPARATOR.join(sorted(folder.encode() for folder in set(folders)))


def siblings_of(path: str, system: Any = None) -> list[str]:
    """Return the folders that a file lists, in a file system of pyarrow."""
    listed = (pq.read_metadata(path, filesystem=system).metadata or {}).get(SIBLINGS_KEY, b"")
    return [folder.decode() for folder in listed.split(_SEPARATOR) if folder]


def missing_siblings(folder: Path) -> dict[str, list[str]]:
    """Return the missing files of an archive, by the path of a file that lists them.

    Each is named once, under the first file that lists it: that of the coverage if there is one. Raises
    OSError and pyarrow's errors if a file cannot be read.
    """
    files = dict(_files(folder))
    there: defaultdict[tuple[str, str], list[BatchFile]] = defaultdict(list)
    for path, file in files.items():
        there[path.rpartition("/")[0], file.query].append(file)
    missing: defaultdict[str, list[str]] = defaultdict(list)
    named: set[str] = set()
    for path, file in files.items():
        for each in siblings_of(str(folder / path)):
            # The name of a merged file in another folder is not known.
            lost = f"{each}/{file.query}-*" if file.is_merged else f"{each}/{path.rpartition('/')[2]}"
            is_named = bool(named & {lost, f"{each}/{file.query}-*"})
            if not is_named and not _has(there.get((each, file.query), ()), file):
                missing[path].append(lost)
                named.add(lost)
    return missing


def _files(folder: Path) -> Iterator[tuple[str, BatchFile]]:
    paths = sorted(folder.glob("*/day=*/*.parquet"))
    for path in sorted(paths, key=lambda path: path.parent.parent.name != _FIRST):
        file = batch_file(str(path))
        if file is not None:
            yield str(path.relative_to(folder)), file


def _has(there: Iterable[BatchFile], file: BatchFile) -> bool:
    """Whether a folder with the files `there` has the batch of `file`; for a merged file, any file at all."""
    if file.is_merged:
        return any(True for _ in there)
    return any(each.batch == file.batch or (each.is_merged and each.batch > file.batch) for each in there)


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raise UserError if an archive cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"cannot read the archive {folder}: {reason}") from error
