"""Sources of packets: capture files and folders, and the run ID of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from streaming.feeder.capture_stream import open_file
from streaming.feeder.folder import CaptureFolder, first_packet
from streaming.user_error import UserError

_DIGESTED = 1024 * 1024
"""Bytes at the start of a file that determine its run ID, together with its length."""


class TruncatedCaptureError(UserError):
    """The capture ends inside a packet. Raised after all complete packets were read."""


class Capture(Protocol):
    """Packets to read; after the iteration `truncated` says whether it ended inside one."""

    @property
    def truncated(self) -> bool:
        """Whether the capture ended inside a packet."""
        ...

    def __iter__(self) -> Iterator[Packet]:
        """Yield the packets in order. Raises UserError if the capture is damaged."""
        ...

    def batches(self) -> Iterator[PacketBatch]:
        """Yield the same packets in batches; each is valid until the next but one is read."""
        ...


@contextmanager
def open_capture(path: Path, key_log: KeyLog | None = None) -> Iterator[Capture]:
    """Open a pcap or pcapng file, plain or compressed, or a folder of rotated ones.

    Secrets of TLS that it holds are added to `key_log`.
    Raises UserError if it cannot be read or is no capture, also while its packets are read, and at the end
    TruncatedCaptureError if it ends inside a packet.
    """
    if path.is_dir():
        folder = CaptureFolder(path, key_log)
        yield folder
        check_complete(folder, f"a file in {path}")
        return
    with open_file(path, key_log) as file:
        yield file
        check_complete(file, str(path))


def run_of_file(path: Path) -> int:
    """Return the run ID of a file, which depends on its content: reading it again makes the same records.

    The run ID of a folder depends on its first packet, since its files may grow. Raises UserError if it
    cannot be read.
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


def check_complete(capture: Capture, name: str) -> None:
    """Raise TruncatedCaptureError if a capture that has been read ended inside a packet."""
    if capture.truncated:
        raise TruncatedCaptureError(f"{name} ends inside a packet; all complete packets were read")
