"""Capture files, pipes and folders of rotated files: their packets in order, and the run ID of each source.

`tcpdump -C`, `tcpdump -G` and `dumpcap -b` rotate files. Those of a folder are ordered by their first
packets: names wrap around in a ring, and file times change when files are copied. A file and its compressed
copy count once. A packet's `position` includes the bytes of earlier files. Files of a folder that are no
captures are left out and named, and all others are read.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet
from streaming.feeder.capture_stream import (
    COMPRESSED,
    CaptureStream,
    check_complete,
    is_pipe,
    open_file,
    shown,
)
from streaming.user_error import UserError

POLL_SECONDS = 0.5
"""Seconds between two looks at a followed folder that holds nothing new."""
MOST_FILES = 100_000
"""Files of a followed folder that are remembered as read; a folder holds fewer."""
_DIGESTED = 1024 * 1024
"""Bytes at the start of a file that determine its run ID, together with its length."""


class FileOrder(NamedTuple):
    """Sort key of a file: the time of its first packet, in nanoseconds, then its name."""

    first_captured_at: int
    name: str


class CaptureFolder:
    """Reads each packet of a folder's files once, in order. Adds secrets of TLS in the files to `key_log`.

    `unread` says of each file that is no capture, or cannot be read, why it is left out.
    """

    def __init__(self, folder: Path, key_log: KeyLog | None = None) -> None:
        """Raises UserError if the folder holds no packet."""
        self.unread: list[str] = []
        paths = (Path(file.path) for file in _files(folder))
        ordered = {order: path for path in paths if (order := self._order(path))}
        if not ordered:
            problem = next(iter(self.unread), f"{folder} holds no capture with packets")
            raise UserError(f"{problem}; name a capture or a folder of captures")
        self.files = [ordered[order] for order in sorted(ordered)]
        self.truncated = False
        self._key_log = key_log

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch.packets()

    def batches(self) -> Iterator[PacketBatch]:
        """Yield the packets in batches. A batch is valid until the next but one is read."""
        before = 0
        for path in self.files:
            with open_file(path, self._key_log) as file:
                yield from _shifted(before, file)
                self.truncated |= file.truncated
                before += file.position

    def _order(self, path: Path) -> FileOrder | None:
        try:
            return _order(path)
        except UserError as error:
            self.unread.append(str(error))
            return None


Capture = CaptureStream | CaptureFolder
"""An opened source. After its last packet, `truncated` says whether it ended inside a packet."""


@contextmanager
def open_capture(path: Path, key_log: KeyLog | None = None) -> Iterator[Capture]:
    """Open a pcap or pcapng file or pipe, plain or compressed, or a folder of rotated files.

    Adds secrets of TLS in the capture to `key_log`. Raises UserError, also while packets are read, if the
    source cannot be read or is no capture, and at the end if it ends inside a packet, or if a folder also
    holds files that are no captures.
    """
    if path.is_dir():
        folder = CaptureFolder(path, key_log)
        yield folder
        check_complete(folder.truncated, f"a file in {path}")
        if folder.unread:
            raise UserError(f"{'; '.join(folder.unread)}; all other files were read")
        return
    with open_file(path, key_log) as file:
        yield file
        check_complete(file.truncated, shown(path))


def run_of_file(path: Path) -> int:
    """Return the run ID of a file, pipe or folder, so that reading it again makes the same records.

    The ID of a file depends on its size and its first MiB, that of a folder or pipe on its first packet,
    because they may grow. Raises UserError if it cannot be read.
    """
    if path.is_dir():
        first = next(iter(CaptureFolder(path)))
        return _run(first.data, first.captured_at)
    if is_pipe(path):
        with open_file(path) as file:
            packet = next(iter(file), None)
        return _run(packet.data, packet.captured_at) if packet else _run(b"", 0)
    try:
        with path.open("rb") as stream:
            return _run(stream.read(_DIGESTED), path.stat().st_size)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def run_of_followed(folder: Path, waits: Callable[[], None]) -> int:
    """Return the run ID of a folder once it has a packet: what writes there may start later.

    `waits` is called once if there is none yet. Raises UserError if the folder cannot be read.
    """
    files = _FollowedFiles(folder)
    if not files.has_unread():
        waits()
    while not files.has_unread():
        time.sleep(POLL_SECONDS)
    return run_of_file(folder)


def _run(content: bytes, number: int) -> int:
    digest = hashlib.blake2b(content, digest_size=8)
    digest.update(number.to_bytes(8))
    return int.from_bytes(digest.digest())


def follow(folder: Path, key_log: KeyLog | None = None) -> Iterator[PacketBatch]:
    """Yield the packets of a folder, then wait for new ones for ever. Yields an empty batch after each pause.

    A file counts as complete when another one follows. If a complete file ends inside a packet, or is
    damaged, its complete packets are read and a warning goes to standard error. Files that are no captures
    are ignored. Adds secrets of TLS in the files to `key_log`.

    Each file is read once, whatever becomes of its name: it is known by the time of its first packet. A new
    file is read even if that time is earlier than those of files before, because a clock was set back.
    """
    before, files = 0, _FollowedFiles(folder)
    while True:
        path = files.begin_next()
        if path is None:
            yield _pause()
            continue
        try:
            with open_file(path, key_log) as file:
                try:
                    yield from _follow_file(files, before, file)
                finally:
                    before += file.position
                if file.truncated:
                    raise UserError(f"{path} ends inside a packet; all complete packets were read")
        except UserError as error:
            print(f"kipwatch: {error}", file=sys.stderr)


def _follow_file(files: _FollowedFiles, before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    while True:
        # Check before reading the rest: once the next file exists, this one does not grow.
        is_complete = files.has_unread()
        yield from _shifted(before, file)
        if is_complete:
            return
        yield _pause()


def _shifted(before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    return (batch._replace(positions=before + batch.positions) for batch in file.batches())


def _pause() -> PacketBatch:
    time.sleep(POLL_SECONDS)
    return PacketBatch.of([])


class _FollowedFiles:
    """The files of a followed folder, and which of them were read.

    A file that has a first packet is opened anew only if its inode, its size or the time of its change is
    another than at the look before. Others are tried at each look.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[int, None] = {}
        """The times of the first packets of files that were read."""
        self._ordered: dict[tuple[str, int, int, int], FileOrder] = {}

    def begin_next(self) -> Path | None:
        """Return the first file that was not read, which then counts as read; None if there is none."""
        first = min(self._unread().items(), default=None)
        if first is None:
            return None
        order, path = first
        self._read[order.first_captured_at] = None
        if len(self._read) > MOST_FILES:
            del self._read[next(iter(self._read))]
        return Path(path)

    def has_unread(self) -> bool:
        """Whether there is a file that was not read."""
        return bool(self._unread())

    def _unread(self) -> dict[FileOrder, str]:
        """Return the paths of the files that were not read."""
        unread, ordered = {}, {}
        for file in _files(self._folder):
            with suppress(UserError, FileNotFoundError):
                status = file.stat()
                key = file.path, status.st_ino, status.st_size, status.st_ctime_ns
                if order := self._ordered.get(key) or _order(Path(file.path)):
                    ordered[key] = order
                    if order.first_captured_at not in self._read:
                        unread[order] = file.path
        self._ordered = ordered
        return unread


def _files(folder: Path) -> list[os.DirEntry[str]]:
    """List the files in reverse: a plain file follows its compressed copies and replaces them."""
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.is_file()]
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error
    return sorted(files, key=lambda entry: entry.name, reverse=True)


def _order(path: Path) -> FileOrder | None:
    """Return the sort key of a file, None if it has no packet yet. Raises UserError if it is no capture."""
    if not path.stat().st_size:
        return None
    with open_file(path) as file:
        first = next(iter(file), None)
    name = path.with_suffix("").name if path.suffix in COMPRESSED else path.name
    return FileOrder(first.captured_at, name) if first else None
