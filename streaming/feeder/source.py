"""Captures as sources of packets, and the run they are named by."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import CaptureStream, open_file
from streaming.feeder.folder import CaptureFolder, first_packet
from streaming.feeder.standard_input import StandardInput
from streaming.user_error import UserError

_DIGESTED = 1024 * 1024
"""Bytes at the start of a file that name its run, together with its length."""


class TruncatedCaptureError(UserError):
    """The capture ends inside a packet. Raised when it has been read, so what is whole is not lost."""


class Capture(Protocol):
    """Packets to read; `truncated` tells after the iteration that something ended inside one."""

    @property
    def truncated(self) -> bool:
        """Whether what was read ends inside a packet."""
        ...

    def __iter__(self) -> Iterator[Packet]:
        """Give the packets in their order. Raises UserError where the capture is damaged."""
        ...

    def batches(self) -> Iterator[PacketBatch]:
        """Give the same packets many at a time; each batch is good until the next but one."""
        ...


@contextmanager
def open_capture(path: Path) -> Iterator[Capture]:
    """Open a pcap or pcapng file, plain or compressed, or a folder of rotated ones.

    Raises UserError when it cannot be read or is no capture, also while its packets are read, and
    TruncatedCaptureError when it is left and turned out to end inside a packet.
    """
    if path.is_dir():
        folder = CaptureFolder(path)
        yield folder
        _demand_whole(folder, f"a file in {path}")
        return
    with open_file(path) as file:
        yield file
        _demand_whole(file, str(path))


def standard_input(is_stopping: Callable[[], bool]) -> Iterator[PacketBatch]:
    """Give the packets of standard input as they come, as `tcpdump -w -` writes them.

    Ends when `is_stopping`. Raises UserError as `open_capture`.
    """
    raw = StandardInput(is_stopping)
    try:
        stream = CaptureStream(io.BufferedReader(raw), "standard input")
    except UserError:
        if is_stopping():
            return
        raise
    yield from stream.batches(raw.has_more)
    if not is_stopping():
        _demand_whole(stream, "standard input")


def run_of_file(path: Path) -> int:
    """Name the run of a file by its content, so that reading it again gives the same records.

    That of a folder is named by its first packet, since its files may still grow. Raises UserError when
    it cannot be read.
    """
    if path.is_dir():
        first = first_packet(path)
        return _run(first.data, first.captured_at)
    try:
        with path.open("rb") as stream:
            return _run(stream.read(_DIGESTED), path.stat().st_size)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _run(content: bytes, number: int) -> int:
    digest = hashlib.blake2b(content, digest_size=8)
    digest.update(number.to_bytes(8))
    return int.from_bytes(digest.digest())


def _demand_whole(capture: Capture, name: str) -> None:
    if capture.truncated:
        raise TruncatedCaptureError(f"{name} ends inside a packet; all complete packets were read")
