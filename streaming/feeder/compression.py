"""Decompresses captures while they are read: gzip and zstd, detected by their first bytes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

import zstandard

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PIECE = 4096
"""Compressed bytes that are read at a time; they may decompress to megabytes."""


class CompressionError(ValueError):
    """Compressed bytes that are damaged."""


class _Member(Protocol):
    """Decompressor of one member of a file: what zlib and zstandard have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Member:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _zstd() -> _Member:
    return cast("_Member", zstandard.ZstdDecompressor().decompressobj())


_MEMBERS: dict[bytes, Callable[[], _Member]] = {b"\x1f\x8b": _gzip, b"\x28\xb5\x2f\xfd": _zstd}


class Decompressed(io.RawIOBase):
    """The decompressed bytes of a source of one or more members.

    At the end `truncated` says whether the last member is incomplete. Reading raises CompressionError.
    """

    def __init__(self, source: io.BufferedIOBase, start: bytes, member: Callable[[], _Member]) -> None:
        """`start` holds the first bytes, which were read from `source`; `member` makes a decompressor."""
        self._source = source
        self._compressed = start
        self._new_member = member
        self._member: _Member | None = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read at least one byte into a buffer; returns 0 at the end only."""
        while not self._ready and self._refill():
            pass
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._ready))
        target[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    @property
    def truncated(self) -> bool:
        """Whether the last member has not ended."""
        return self._member is not None

    def _refill(self) -> bool:
        """Decompress one piece; returns False at the end of the source."""
        piece = self._compressed or self._source.read1(_PIECE)
        if not piece:
            return False
        self._member = self._member or self._new_member()
        try:
            self._ready = memoryview(self._member.decompress(piece))
        except (zlib.error, zstandard.ZstdError) as error:
            raise CompressionError(f"damaged compression: {error}") from error
        self._compressed = self._member.unused_data
        if self._member.eof:
            self._member = None
        return True


def decompressed(source: io.BufferedIOBase, start: bytes) -> Decompressed | None:
    """Decompress a source whose first bytes, `start`, were read; None if it is not compressed."""
    for magic, member in _MEMBERS.items():
        if start.startswith(magic):
            return Decompressed(source, start, member)
    return None
