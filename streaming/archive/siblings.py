"""Which files of an archive are missing: each file names those that its batch wrote beside it.

A batch writes a file for each table and day that it has rows of. The metadata of each of them lists the
folders of all, so that the loss of a file shows as long as another one of the batch is there. A merged file
lists what the files in it listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from streaming.archive.batch_file import BatchFile, batch_file

SIBLINGS_KEY: Final = b"kipwatch.files"
"""The key of a file's metadata that lists the folders of its batch, such as `usage/day=2026-06-21`."""
_SEPARATOR: Final = b","
_FIRST: Final = "coverage"
"""The table that nearly every batch has rows of."""


def siblings_text(folders: Iterable[str]) -> bytes:
    """Return folders as metadata."""
    return _SEPARATOR.join(sorted(folder.encode() for folder in set(folders)))


def siblings_of(path: str, system: Any = None) -> list[str]:
    """Return the folders that a file lists, in a file system of pyarrow."""
    listed = (pq.read_metadata(path, filesystem=system).metadata or {}).get(SIBLINGS_KEY, b"")
    return [folder.decode() for folder in listed.split(_SEPARATOR) if folder]


def missing_siblings(folder: Path) -> dict[str, list[str]]:
    """Return what is missing beside files of an archive, by their path below the folder.

    A missing file is named once, beside the first that lists it: in the coverage, if that is there.
    """
    files = dict(_files(folder))
    there: defaultdict[tuple[str, str], list[BatchFile]] = defaultdict(list)
    for path, file in files.items():
        there[path.rpartition("/")[0], file.query].append(file)
    missing: defaultdict[str, list[str]] = defaultdict(list)
    named: set[str] = set()
    for path, file in files.items():
        for each in siblings_of(str(folder / path)):
            # Of merged files only that they are there is known, not how they are called.
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
    """Whether a folder has a file that holds the batch of another one; of merged ones, whether it has any."""
    if file.is_merged:
        return any(True for _ in there)
    return any(each.batch == file.batch or (each.is_merged and each.batch > file.batch) for each in there)
