"""Rows of an archive while a query writes it: each once, also while days are merged or files replaced."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from streaming.archive.batch_files import batch_file


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table; none if it does not exist, or a file of it vanishes meanwhile."""
    rows: list[dict[str, Any]] = []
    with suppress(FileNotFoundError):
        paths = [path for day in (folder / table).glob("day=*") for path in _valid_files(day)]
        if paths:
            rows = ds.dataset(paths, format="parquet").to_table().to_pylist()
    return rows


def _valid_files(day: Path) -> list[str]:
    """Return the files of a day without those that a merged file holds, and that will be deleted."""
    files = [file for path in day.iterdir() if (file := batch_file(str(path)))]
    merged = max(((file.batch, file.path) for file in files if file.is_merged), default=(-1, ""))
    return [file.path for file in files if file.batch > merged[0] or file.path == merged[1]]
