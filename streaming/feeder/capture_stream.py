"""Reads one capture file or stream: pcap or pcapng, plain or compressed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from decoders.tls.key_log import KeyLog
from decoders.wire.capture_file import read_capture
from decoders.wire.columnar.capture_batches import read_batches
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapError
from streaming.feeder.compression import CompressionError, decompressed
from streaming.user_error import UserError

_MAGIC_SIZE = 4


class CaptureStream:
    """The packets of a stream. Raises UserError, which names it, if it is no capture or is damaged.

    A further iteration continues after the last packet, for a file that grows and is not compressed. Secrets
    of TLS that it holds are added to `key_log`.
    """

    def __init__(self, stream: BinaryIO, name: str, key_log: KeyLog | None = None) -> None:
        self._name = name
        start = stream.read(_MAGIC_SIZE)
        self._decompressed = decompressed(cast("io.BufferedIOBase", stream), start)
        if self._decompressed is not None:
            stream, start = io.BufferedReader(self._decompressed), b""
        with self._naming_errors():
            self._reader = read_capture(stream, start, key_log)

    def __iter__(self) -> Iterator[Packet]:
        with self._naming_errors():
            yield from self._reader

    def batches(self, has_more: Callable[[], bool] | None = None) -> Iterator[PacketBatch]:
        """Yield the packets in batches, as `read_batches` does."""
        with self._naming_errors():
            yield from read_batches(self._reader, has_more=has_more)

    @property
    def truncated(self) -> bool:
        """Whether the stream ended inside a packet, or inside compressed data."""
        is_cut_off = self._decompressed is not None and self._decompressed.truncated
        return self._reader.truncated or is_cut_off

    @property
    def position(self) -> int:
        """The byte offset, decompressed, after the last packet read."""
        return self._reader.position

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except (PcapError, CompressionError) as error:
            raise UserError(f"{self._name}: {error}") from error


@contextmanager
def open_file(path: Path, key_log: KeyLog | None = None) -> Iterator[CaptureStream]:
    """Open a capture file, whose secrets of TLS are added to `key_log`.

    Raises UserError if it cannot be read or is no capture.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    with stream:
        yield CaptureStream(stream, str(path), key_log)
