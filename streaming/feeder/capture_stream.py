"""One stream of packets, of a file or a pipe: pcap or pcapng, plain or compressed (gzip, zstd).

Both formats and both compressions are recognised by their first bytes. A feeder follows a pipe as its bytes
arrive, and ends when it is stopped, even if no more arrive. Other commands may read a pipe more than once: a
check reads the first packet of each file for their order, then all packets, and those again for evidence.
Bytes read from a pipe are therefore kept in an unnamed temporary file. The first reader gets them as they
arrive, later readers get the kept ones first. Only this user can read the file, and it goes with the process.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import select
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, cast

import zstandard

from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch, read_batches
from decoders.wire.pcap import PcapError, read_capture
from decoders.wire.segment import Packet
from streaming.user_error import UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PIECE = 4096
"""Compressed bytes to read at a time; they may decompress to megabytes."""
_MAGIC_SIZE = 4
COMPRESSED = (".gz", ".zst")
STANDARD_INPUT: Final = Path("-")
_DESCRIPTOR: Final = 0
_KEPT_PIECE: Final = 1 << 18
POLL_MILLISECONDS = 50


_FileMember: TypeAlias = "zlib._Decompress | zstandard.ZstdDecompressionObj"
"""The decompressor of one member of a file. A file may consist of several members."""
_MEMBERS: dict[bytes, Callable[[], _FileMember]] = {
    b"\x1f\x8b": functools.partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS),
    b"\x28\xb5\x2f\xfd": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


class Decompressed(io.RawIOBase):
    """Decompresses a source while it is read. It ends before damaged bytes; then `damage` tells of them."""

    def __init__(self, source: io.BufferedIOBase, start: bytes, member: Callable[[], _FileMember]) -> None:
        """`start` holds the bytes already read from `source`; `member` makes a decompressor."""
        self._source = source
        self._compressed = start
        self._new_member = member
        self._member: _FileMember | None = None
        self._ready = memoryview(b"")
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read at least one byte into a buffer. Returns 0 only at the end."""
        while not self._ready and self._refill():
            pass
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._ready))
        target[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    @property
    def truncated(self) -> bool:
        """Whether the source ended inside a member."""
        return self._member is not None

    def _refill(self) -> bool:
        """Decompress one piece. Returns False at the end of the source, and where it is damaged."""
        piece = b"" if self.damage else self._compressed or self._source.read1(_PIECE)
        if not piece:
            return False
        self._member = self._member or self._new_member()
        try:
            self._ready = memoryview(self._member.decompress(piece))
        except (zlib.error, zstandard.ZstdError) as error:
            self.damage = f"damaged compression: {error}"
            return False
        self._compressed = self._member.unused_data
        if self._member.eof:
            self._member = None
        return True


def decompressed(source: io.BufferedIOBase, start: bytes) -> Decompressed | None:
    """Decompress a source of which `start` was already read. Returns None if it is not compressed."""
    for magic, member in _MEMBERS.items():
        if start.startswith(magic):
            return Decompressed(source, start, member)
    return None


class CaptureStream:
    """Reads the packets of a stream and adds its secrets of TLS to `key_log`.

    Iterating again continues after the last packet, so that an uncompressed file can be followed. Raises
    UserError, which gives `name`, if the stream is no capture, and behind the last packet before any damage.
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
            self._check_compression()

    def batches(self, has_more: Callable[[], bool] | None = None) -> Iterator[PacketBatch]:
        """Yield the packets in batches, as `read_batches` does."""
        with self._naming_errors():
            yield from read_batches(self._reader, has_more=has_more)
            self._check_compression()

    @property
    def truncated(self) -> bool:
        """Whether the stream ended inside a packet, or inside compressed data."""
        is_cut_off = self._decompressed is not None and self._decompressed.truncated
        return self._reader.truncated or is_cut_off

    @property
    def position(self) -> int:
        """The byte offset, decompressed, after the last packet read."""
        return self._reader.position

    @property
    def _damage(self) -> str:
        """What is wrong with the compression where it ends, empty if nothing is."""
        return "" if self._decompressed is None else self._decompressed.damage

    def _check_compression(self) -> None:
        if self._damage:
            raise PcapError(self._damage)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except PcapError as error:
            raise UserError(f"{self._name}: {self._damage or error}") from error


@contextmanager
def open_file(path: Path, key_log: KeyLog | None = None) -> Iterator[CaptureStream]:
    """Open a capture file or a pipe; its secrets of TLS are added to `key_log`.

    Raises UserError if it cannot be read or is no capture.
    """
    try:
        stream: BinaryIO = open_pipe(path) if is_pipe(path) else path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror or error}") from error
    with stream:
        yield CaptureStream(stream, shown(path), key_log)


def check_complete(truncated: bool, name: str) -> None:
    """Raise UserError if a capture that was read to its end is `truncated`."""
    if truncated:
        raise UserError(f"{name} ends inside a packet; all complete packets were read")


def follow_pipe(
    path: Path, is_stopping: Callable[[], bool], idle: Callable[[], None], key_log: KeyLog | None = None
) -> Iterator[PacketBatch]:
    """Yield the packets of a pipe as they arrive, as `tcpdump -w -` writes them; `-` is standard input.

    Ends when `is_stopping` returns True. Calls `idle` every 50 ms while no bytes arrive. Adds secrets of TLS
    to `key_log`. Raises UserError like `open_capture`.
    """
    raw = _Bytes(pipe_descriptor(path), is_stopping, idle)
    try:
        stream = CaptureStream(io.BufferedReader(raw), shown(path), key_log)
    except UserError:
        if is_stopping():
            return
        raise
    yield from stream.batches(raw.has_more)
    if not is_stopping():
        check_complete(stream.truncated, shown(path))


class _Bytes(io.RawIOBase):
    """Reads a descriptor until it ends or `is_stopping` returns True."""

    def __init__(self, descriptor: int, is_stopping: Callable[[], bool], idle: Callable[[], None]) -> None:
        self._descriptor, self._is_stopping, self._idle = descriptor, is_stopping, idle
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Wait for bytes and read those available. Returns 0 at the end."""
        while not self._is_stopping():
            if self._poll.poll(POLL_MILLISECONDS):
                return os.readv(self._descriptor, [buffer])
            self._idle()
        return 0

    def has_more(self) -> bool:
        """Whether a read would return at once."""
        return bool(self._poll.poll(0))


def is_pipe(path: Path) -> bool:
    """Whether a path is `-`, or names a pipe, a socket or a device: something that can be read only once."""
    return path == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def shown(path: Path) -> str:
    """Return the name of a source in messages."""
    return "standard input" if path == STANDARD_INPUT else path_text(path)


def path_text(path: Path) -> str:
    r"""Return a path as text that is valid Unicode; bytes that are no UTF-8 are escaped, as `\xe9`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def open_pipe(path: Path) -> io.BufferedReader:
    """Read a pipe from its first byte, also if it was read before. Raises UserError and OSError."""
    return io.BufferedReader(_View(_kept(path), shown(path)), _KEPT_PIECE)


def pipe_descriptor(path: Path) -> int:
    """Open a pipe, which may wait for its writer. Raises UserError."""
    if path == STANDARD_INPUT:
        return _DESCRIPTOR
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


class _KeptPipe:
    """The bytes of a pipe that have been read."""

    def __init__(self, path: Path) -> None:
        self._descriptor = pipe_descriptor(path)
        self._kept = tempfile.TemporaryFile(prefix="kipwatch-")  # noqa: SIM115  # as long as the process
        self._size = 0

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset, at least one unless the pipe has ended there. Waits for them."""
        if offset < self._size:
            return os.pread(self._kept.fileno(), size, offset)
        piece = os.read(self._descriptor, size)
        if os.pwrite(self._kept.fileno(), piece, offset) < len(piece):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(piece)
        return piece


@functools.cache
def _kept(path: Path) -> _KeptPipe:
    return _KeptPipe(path)


class _View(io.RawIOBase):
    """One reader of a pipe."""

    def __init__(self, pipe: _KeptPipe, name: str) -> None:
        self._pipe, self._name = pipe, name
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read the next bytes. Returns 0 at the end. Raises UserError if they cannot be read or kept."""
        target = memoryview(buffer).cast("B")
        try:
            piece = self._pipe.read_at(self._offset, len(target))
        except OSError as error:
            folder = tempfile.gettempdir()
            raise UserError(f"cannot read {self._name} and keep it in {folder}: {error.strerror}") from error
        target[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)
