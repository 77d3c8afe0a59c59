"""Compressed captures, read as if they were not: gzip and zstd, told by their first bytes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

import zstandard

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PIECE = 4096
"""Compressed bytes taken at a time: even so few may become megabytes."""


class CompressionError(ValueError):
    """Compressed bytes that are damaged."""


class _Member(Protocol):
    """One compressed member of a file; the objects of zlib and zstandard agree on this."""

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
    """What compressed bytes stand for; one member may follow another.

    `truncated` tells at the end whether the last member is not whole. Reading raises CompressionError.
    """

    def __init__(self, source: io.BufferedIOBase, begun: bytes, member: Callable[[], _Member]) -> None:
        """Read on in a source of which the bytes `begun` were taken; `member` begins a decompressor."""
        self._source = source
        self._compressed = begun
        self._begin = member
        self._member: _Member | None = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer as far as something is ready; 0 only at the end."""
        while not self._ready and self._refill():
            pass
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._ready))
        target[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    @property
    def truncated(self) -> bool:
        """Whether a member was begun and has not ended."""
        return self._member is not None

    def _refill(self) -> bool:
        """Decompress one piece; False at the end of the source."""
        piece = self._compressed or self._source.read1(_PIECE)
        if not piece:
            return False
        self._member = self._member or self._begin()
        try:
            self._ready = memoryview(self._member.decompress(piece))
        except (zlib.error, zstandard.ZstdError) as error:
            raise CompressionError(f"damaged compression: {error}") from error
        self._compressed = self._member.unused_data
        if self._member.eof:
            self._member = None
        return True


def decompressed(source: io.BufferedIOBase, begun: bytes) -> Decompressed | None:
    """Decompress a source of which the bytes `begun` were taken; None where it is not compressed."""
    for magic, member in _MEMBERS.items():
        if begun.startswith(magic):
            return Decompressed(source, begun, member)
    return None
