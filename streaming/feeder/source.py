"""Capture files as sources of packets, and the run they are named by."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from decoders.wire.pcap import PcapError, PcapReader
from streaming.failure import UserError

_DIGESTED = 1024 * 1024
"""Bytes at the start of a file that name its run, together with its length."""


class TruncatedCaptureError(UserError):
    """The capture ends inside a packet. Raised when it has been read, so what is whole is not lost."""


@contextmanager
def open_capture(path: Path) -> Iterator[PcapReader]:
    """Open a pcap file.

    Raises UserError when it cannot be read or is no pcap, also while its packets are read, and
    TruncatedCaptureError when it is left and turned out to end inside a packet.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    with stream, _reader(stream, str(path)) as reader:
        yield reader


@contextmanager
def standard_input() -> Iterator[PcapReader]:
    """Read a pcap from standard input, as `tcpdump -w -` writes it. Raises UserError as `open_capture`."""
    with _reader(sys.stdin.buffer, "standard input") as reader:
        yield reader


def run_of_file(path: Path) -> int:
    """Name the run of a file by its content, so that reading it again gives the same records.

    Raises UserError when it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            digest = hashlib.blake2b(stream.read(_DIGESTED), digest_size=8)
        digest.update(path.stat().st_size.to_bytes(8))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return int.from_bytes(digest.digest())


@contextmanager
def _reader(stream: BinaryIO, name: str) -> Iterator[PcapReader]:
    try:
        reader = PcapReader(stream)
        yield reader
    except PcapError as error:
        raise UserError(f"{name}: {error}") from error
    if reader.truncated:
        raise TruncatedCaptureError(f"{name} ends inside a packet; what is whole was read")
