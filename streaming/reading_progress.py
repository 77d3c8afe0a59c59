"""How far a long capture is read: a bar on standard error, where that is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from decoders.wire.columnar.packets import PacketBatch
from streaming.examination import Through

LONG = 8 * 1024 * 1024
"""Bytes below which a capture is read before a bar could be looked at."""
_COMPRESSED = (".gz", ".zst")


def showing_progress(path: Path) -> Through:
    """Give what a capture's packets pass through so that the bar moves with them."""
    console = Console(stderr=True)
    size = _size(path)
    if not console.is_terminal or size < LONG:
        return iter

    def through(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(path.name, total=_total(path, size))
            for batch in batches:
                if batch.size:
                    progress.update(task, completed=int(batch.positions[0]))
                yield batch

    return through


def _size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    try:
        return sum(file.stat().st_size for file in files)
    except OSError:
        # Whoever opens the capture says what is the matter with it.
        return 0


def _total(path: Path, size: int) -> int | None:
    """Positions count bytes as they are when decompressed, of which only the end will tell how many."""
    names = path.iterdir() if path.is_dir() else [path]
    return None if any(name.suffix in _COMPRESSED for name in names) else size
