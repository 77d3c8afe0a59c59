"""A folder of files that one capture was written to in turn, as `tcpdump -C`, `-G` and `dumpcap -b` do.

The files are ordered by their first packets: names wrap around in a ring, and times of files change
when they are copied. A file and its compressed copy count once. A packet's `position` counts the
bytes of the files before its own as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import CaptureStream, open_file
from streaming.user_error import UserError

POLL_SECONDS = 0.5
"""How long a followed folder is left alone where it holds nothing new."""
_COMPRESSED = (".gz", ".zst")


class Place(NamedTuple):
    """Where a file stands among the others: by the time of its first packet, then by name."""

    began_at: int
    name: str


class CaptureFolder:
    """The packets of all files, once."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError when the folder holds no packet, or anything that is no capture."""
        places = {place: path for path in _paths(folder) if (place := _place(path))}
        if not places:
            raise UserError(f"{folder} holds no capture with a packet in it; name a capture or its folder")
        self.files = [places[place] for place in sorted(places)]
        self.truncated = False

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch.packets()

    def batches(self) -> Iterator[PacketBatch]:
        """Give the packets many at a time; each batch is good until the next but one."""
        before = 0
        for path in self.files:
            with open_file(path) as file:
                yield from _behind(before, file)
                self.truncated |= file.truncated
                before += file.position


def follow(folder: Path) -> Iterator[PacketBatch]:
    """Give what the folder holds and then what is written to it, for ever; an empty batch after a pause.

    A file is read to its end when a later one is there. One that ends inside a packet all the same, or
    is damaged, is read as far as it is whole, which standard error tells. What is no capture is passed over.
    """
    before, reached = 0, None
    while True:
        found = _next(folder, reached)
        if found is None:
            yield _nothing()
            continue
        reached, path = found
        try:
            with open_file(path) as file:
                yield from _follow_file(folder, reached, before, file)
                before += file.position
                if file.truncated:
                    raise UserError(f"{path} ends inside a packet; all complete packets were read")
        except UserError as error:
            print(f"kipwatch: {error}", file=sys.stderr)


def first_packet(folder: Path) -> Packet:
    """Give the first packet of a folder's first file. Raises UserError as CaptureFolder."""
    return next(iter(CaptureFolder(folder)))


def _follow_file(folder: Path, place: Place, before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    while True:
        # Asked before the rest is read: whoever begins the next file has written all of this one.
        is_complete = _next(folder, place) is not None
        yield from _behind(before, file)
        if is_complete:
            return
        yield _nothing()


def _behind(before: int, file: CaptureStream) -> Iterator[PacketBatch]:
    return (batch._replace(positions=before + batch.positions) for batch in file.batches())


def _nothing() -> PacketBatch:
    time.sleep(POLL_SECONDS)
    return PacketBatch.of([])


def _next(folder: Path, reached: Place | None) -> tuple[Place, Path] | None:
    """Find the first file behind a place."""
    later = {}
    for path in _paths(folder):
        with suppress(UserError, FileNotFoundError):
            place = _place(path)
            if place and (reached is None or place > reached):
                later[place] = path
    return min(later.items(), default=None)


def _paths(folder: Path) -> list[Path]:
    """List the files in reverse, so that of a file and its compressed copies the plain one is met last."""
    try:
        return sorted((path for path in folder.iterdir() if path.is_file()), reverse=True)
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from error


def _place(path: Path) -> Place | None:
    """Place a file; None where it has no packet yet. Raises UserError where it is no capture."""
    if not path.stat().st_size:
        return None
    with open_file(path) as file:
        first = next(iter(file), None)
    name = path.with_suffix("").name if path.suffix in _COMPRESSED else path.name
    return Place(first.captured_at, name) if first else None
