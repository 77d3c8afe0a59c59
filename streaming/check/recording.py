"""A recording: several capture files that are read as one, in the order of their first packets.

Connections continue from file to file, as in a capture that was split. Files that overlap in time are not
merged packet by packet: clocks of two hosts differ, and unrelated captures may contain equal sockets. The
position of a packet also identifies its file.

`showing_progress` moves a bar on standard error while a long recording is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet
from streaming.feeder.capture_stream import COMPRESSED, open_file
from streaming.feeder.source import CaptureFolder, run_of_file
from streaming.user_error import UserError

FILE_SHIFT = 44
"""A position holds the number of the file above these bits, and the byte offset in that file below."""
LONG = 8 * 1024 * 1024
"""Bytes of a capture above which reading takes long enough to show a bar."""
Through = Callable[[Iterable[PacketBatch]], Iterable[PacketBatch]]
"""A stage that packets pass unchanged before they are read, such as a progress bar."""


class Recording:
    """The packets of all files; a file that is named twice is read once.

    Secrets of TLS that the files hold are added to `key_log`.
    """

    def __init__(self, paths: Sequence[Path], key_log: KeyLog | None = None) -> None:
        """`paths` are files, plain or compressed, pipes, and folders of rotated files.

        Raises UserError if one cannot be read or a folder holds no capture.
        """
        folders = {path: CaptureFolder(path) for path in paths if path.is_dir()}
        self.unread = [problem for folder in folders.values() for problem in folder.unread]
        """Why each file of a folder that is left out is no capture, or cannot be read, and then what damage
        ended a file early."""
        named = [file for path in paths for file in (folders[path].files if path in folders else [path])]
        files = list({file.resolve(): file for file in named}.values())
        self.files = files if len(files) == 1 else sorted(files, key=_began_at)
        self.run = _run(paths)
        self._key_log = key_log
        self.truncated: set[Path] = set()
        """Files that have been read and end inside a packet."""

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch.packets()

    def batches(self) -> Iterator[PacketBatch]:
        """Yield the packets in batches; each is valid until the next but one is read.

        Of a file that is damaged these are the packets before the damage.
        """
        for number, path in enumerate(self.files):
            with open_file(path, self._key_log) as file:
                try:
                    for batch in file.batches():
                        yield batch._replace(positions=batch.positions | number << FILE_SHIFT)
                except UserError as damage:
                    self.unread.append(str(damage))
                if file.truncated:
                    self.truncated.add(path)


def _began_at(path: Path) -> int:
    """Return the capture time of a file's first packet; 0 for a file without packets, which is read first."""
    # Damage is told when the file is read.
    with open_file(path) as file, suppress(UserError):
        for first in file:
            return first.captured_at
    return 0


def _run(paths: Sequence[Path]) -> int:
    """Return the ID of the run, which depends on all files and not on their order."""
    runs = sorted({run_of_file(path) for path in paths})
    if len(runs) == 1:
        return runs[0]
    digest = hashlib.blake2b(b"".join(run.to_bytes(8) for run in runs), digest_size=8)
    return int.from_bytes(digest.digest())


def showing_progress(paths: Sequence[Path]) -> Through:
    """Return a function that passes the batches of these files through and moves the bar."""
    console, sizes = Console(stderr=True), _sizes(paths)
    if not console.is_terminal or sum(sizes.values()) < LONG:
        return iter
    # Positions count decompressed bytes, whose total is not known in advance.
    is_known = all(path.suffix not in COMPRESSED for path in sizes)

    def through(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        reached: dict[int, int] = {}
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(paths[0].name, total=sum(sizes.values()) if is_known else None)
            for batch in batches:
                if batch.size:
                    file, position = divmod(int(batch.positions[0]), 1 << FILE_SHIFT)
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
