"""A progress bar on standard error while a long capture is read, if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from decoders.wire.columnar.packets import PacketBatch
from streaming.check.examination import Through
from streaming.check.recording import file_position

LONG = 8 * 1024 * 1024
"""Bytes from which a capture takes long enough to read to show a bar."""
_COMPRESSED = (".gz", ".zst")


def showing_progress(paths: Sequence[Path]) -> Through:
    """Return a function that passes the batches of these files through and moves the bar."""
    console, sizes = Console(stderr=True), _sizes(paths)
    if not console.is_terminal or sum(sizes.values()) < LONG:
        return iter
    # Positions count decompressed bytes, whose total is not known in advance.
    is_known = all(path.suffix not in _COMPRESSED for path in sizes)

    def through(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        reached: dict[int, int] = {}
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(paths[0].name, total=sum(sizes.values()) if is_known else None)
            for batch in batches:
                if batch.size:
                    file, position = file_position(int(batch.positions[0]))
                    reached[file] = position
                    progress.update(task, completed=sum(reached.values()))
                yield batch

    return through


def _sizes(paths: Sequence[Path]) -> dict[Path, int]:
    try:
        files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
        return {file: file.stat().st_size for file in files}
    except OSError:
        # The error is reported when the capture is opened.
        return {}
