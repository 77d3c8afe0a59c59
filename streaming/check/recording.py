"""A recording: capture files that are read as one, in the order of their first packets.

So connections go on from file to file, as in a capture that was cut in pieces. Packets of files that overlap
in time are not mixed: of two hosts' clocks none is right, and captures that have nothing to do with each
other may name the same sockets. A packet's position names its file, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import open_file
from streaming.feeder.folder import CaptureFolder
from streaming.feeder.source import run_of_file

FILE_SHIFT = 44
"""A position holds the number of its file above so many bits, and the place in it in them."""


class Place(NamedTuple):
    """Where a packet stands: the number of its file, and how many bytes lie before it there."""

    file: int
    position: int


def place(position: int) -> Place:
    """Take a packet's position apart."""
    return Place(position >> FILE_SHIFT, position & (1 << FILE_SHIFT) - 1)


class Recording:
    """The packets of all files, once."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Take files, plain or compressed, and folders of rotated ones.

        Raises UserError when one cannot be read or a folder holds no capture.
        """
        named = [file for path in paths for file in (CaptureFolder(path).files if path.is_dir() else [path])]
        files = list({file.resolve(): file for file in named}.values())
        self.files = files if len(files) == 1 else sorted(files, key=_began_at)
        self.run = _run(paths)
        self.truncated: set[Path] = set()
        """Those of the files that were read and end inside a packet."""

    def __iter__(self) -> Iterator[Packet]:
        for batch in self.batches():
            yield from batch.packets()

    def batches(self) -> Iterator[PacketBatch]:
        """Give the packets many at a time; each batch is good until the next but one.

        Raises UserError where a file is damaged.
        """
        for number, path in enumerate(self.files):
            with open_file(path) as file:
                for batch in file.batches():
                    yield batch._replace(positions=batch.positions | number << FILE_SHIFT)
                if file.truncated:
                    self.truncated.add(path)


def _began_at(path: Path) -> int:
    """Tell when a file's first packet was captured; one without any is looked at first."""
    with open_file(path) as file:
        first = next(iter(file), None)
    return first.captured_at if first else 0


def _run(paths: Sequence[Path]) -> int:
    """Name the run by all that is read, in whichever order it is given."""
    runs = sorted({run_of_file(path) for path in paths})
    if len(runs) == 1:
        return runs[0]
    digest = hashlib.blake2b(b"".join(run.to_bytes(8) for run in runs), digest_size=8)
    return int.from_bytes(digest.digest())
