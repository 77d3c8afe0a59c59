"""A recording: several capture files that are read as one, in the order of their first packets.

Connections continue from file to file, as in a capture that was split. Packets of files that overlap in time
are not merged: clocks of two hosts differ, and unrelated captures may contain equal sockets. The position of
a packet also identifies its file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import open_file
from streaming.feeder.folder import CaptureFolder
from streaming.feeder.source import run_of_file

FILE_SHIFT = 44
"""A position holds the number of the file above these bits, and the byte offset within it in them."""


class FilePosition(NamedTuple):
    """Where a packet is: the number of its file, and its byte offset in that."""

    file: int
    position: int


def file_position(position: int) -> FilePosition:
    """Split the position of a packet."""
    return FilePosition(position >> FILE_SHIFT, position & (1 << FILE_SHIFT) - 1)


class Recording:
    """The packets of all files; a file that is named twice is read once.

    Secrets of TLS that the files hold are added to `key_log`.
    """

    def __init__(self, paths: Sequence[Path], key_log: KeyLog | None = None) -> None:
        """Name files, plain or compressed, and folders of rotated ones.

        Raises UserError if one cannot be read or a folder holds no capture.
        """
        named = [file for path in paths for file in (CaptureFolder(path).files if path.is_dir() else [path])]
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

        Raises UserError if a file is damaged.
        """
        for number, path in enumerate(self.files):
            with open_file(path, self._key_log) as file:
                for batch in file.batches():
                    yield batch._replace(positions=batch.positions | number << FILE_SHIFT)
                if file.truncated:
                    self.truncated.add(path)


def _began_at(path: Path) -> int:
    """Return the capture time of a file's first packet; 0 for a file without packets, which is read first."""
    with open_file(path) as file:
        first = next(iter(file), None)
    return first.captured_at if first else 0


def _run(paths: Sequence[Path]) -> int:
    """Return the ID of the run, which depends on all files and not on their order."""
    runs = sorted({run_of_file(path) for path in paths})
    if len(runs) == 1:
        return runs[0]
    digest = hashlib.blake2b(b"".join(run.to_bytes(8) for run in runs), digest_size=8)
    return int.from_bytes(digest.digest())
