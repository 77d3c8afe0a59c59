"""A folder of rotated capture files, as `tcpdump -C`, `-G` and `dumpcap -b` write them.

Files are ordered by their first packets: names wrap around in a ring, and file times change when files are
copied. A file and its compressed copy count once. A packet's `position` includes the bytes of earlier files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import CaptureStream, open_file
from streaming.user_error import UserError

POLL_SECONDS = 0.5
"""Seconds between two looks at a followed folder that holds nothing new."""
_COMPRESSED = (".gz", ".zst")


class FileOrder(NamedTuple):
    """The order of files: by the time of the first packet, in nanoseconds, then by name."""

    first_captured_at: int
    name: str


class CaptureFolder:
    """The packets of all files of a folder, each once. Their secrets of TLS are added to `key_log`."""

    def __init__(self, folder: Path, key_log: KeyLog | None = None) -> None:
        """Raises UserError if the folder holds no packet, or a file that is no capture."""
        ordered = {order: path for path in _paths(folder) if (order := _order(path))}
        if not ordered:
            raise UserError(f"{folder} holds no capture with packets; name a capture or a folder of captures")
        self.files = [ordered[order] for order in sorted(ordered)]
        self.truncated = False
        self._key_log = key_log

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch.packets()

    def batches(self) -> Iterator[PacketBatch]:
        """Yield the packets in batches; each is valid until the next but one is read."""
        before = 0
        for path in self.files:
            with open_file(path, self._key_log) as file:
                yield from _shifted(before, file)
                self.truncated |= file.truncated
                before += file.position


def follow(folder: Path, key_log: KeyLog | None = None) -> Iterator[PacketBatch]:
    """Yield the packets of a folder and then new ones for ever; an empty batch after a pause.

    A file is complete when a later one exists. If it then ends inside a packet, or is damaged, its complete
    packets are read and a warning goes to standard error. Files that are no captures are ignored. Secrets of
    TLS in them are added to `key_log`.
    """
    before, last = 0, None
    while True:
        found = _next(folder, last)
        if found is None:
            yield _pause()
            continue
        last, path = found
        try:
            with open_file(path, key_log) as file:
                yield from _follow_file(folder, last, before, file)
                before += file.position
                if file.truncated:
                    raise UserError(f"{path} ends inside a packet; all complete packets were read")
        except UserError as error:
            print(f"kipwatch: {error}", file=sys.stderr)


def first_packet(folder: Path) -> Packet:
    """Return the first packet of a folder's first file. Raises UserError like CaptureFolder."""
    return next(iter(CaptureFolder(folder)))


def _follow_file(folder: Path, order: FileOrder, before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    while True:
        # Checked before the rest is read: when the next file exists, this one is written completely.
        is_complete = _next(folder, order) is not None
        yield from _shifted(before, file)
        if is_complete:
            return
        yield _pause()


def _shifted(before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    return (batch._replace(positions=before + batch.positions) for batch in file.batches())


def _pause() -> PacketBatch:
    time.sleep(POLL_SECONDS)
    return PacketBatch.of([])


def _next(folder: Path, last: FileOrder | None) -> tuple[FileOrder, Path] | None:
    """Return the first file after another, or after none."""
    later = {}
    for path in _paths(folder):
        with suppress(UserError, FileNotFoundError):
            order = _order(path)
            if order and (last is None or order > last):
                later[order] = path
    return min(later.items(), default=None)


def _paths(folder: Path) -> list[Path]:
    """List the files in reverse, so that a plain file comes after its compressed copies and replaces them."""
    try:
        return sorted((path for path in folder.iterdir() if path.is_file()), reverse=True)
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error


def _order(path: Path) -> FileOrder | None:
    """Return the order of a file; None if it has no packet yet. Raises UserError if it is no capture."""
    if not path.stat().st_size:
        return None
    with open_file(path) as file:
        first = next(iter(file), None)
    name = path.with_suffix("").name if path.suffix in _COMPRESSED else path.name
    return FileOrder(first.captured_at, name) if first else None
