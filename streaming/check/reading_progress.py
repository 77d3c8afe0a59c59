"""How far a long capture is read: a bar on standard error, where that is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from decoders.wire.columnar.packets import PacketBatch
from streaming.check.examination import Through
from streaming.check.recording import place

LONG = 8 * 1024 * 1024
"""Bytes below which a capture is read before a bar could be looked at."""
_COMPRESSED = (".gz", ".zst")


def showing_progress(paths: Sequence[Path]) -> Through:
    """Give what the packets of a capture's files pass through so that the bar moves with them."""
    console, sizes = Console(stderr=True), _sizes(paths)
    if not console.is_terminal or sum(sizes.values()) < LONG:
        return iter
    # Positions count bytes as they are when decompressed, of which only the end will tell how many.
    is_known = all(path.suffix not in _COMPRESSED for path in sizes)

    def through(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        reached: dict[int, int] = {}
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(paths[0].name, total=sum(sizes.values()) if is_known else None)
            for batch in batches:
                if batch.size:
                    file, position = place(int(batch.positions[0]))
                    reached[file] = position
                    progress.update(task, completed=sum(reached.values()))
                yield batch

    return through


def _sizes(paths: Sequence[Path]) -> dict[Path, int]:
    try:
        files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path])]
        return {file: file.stat().st_size for file in files}
    except OSError:
        # Whoever opens the capture says what is the matter with it.
        return {}
