"""The contents of a bucket's connections: decompressed when the first connection is read, and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Self

import zstandard

from streaming.state.state_error import StateError

# Connections are similar: the fastest level reduces them to a fifth.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class Contents:
    """The contents, one after the other. `size` is their stored size, `read` fetches them."""

    def __init__(self, size: int = 0, read: Callable[[], bytes | None] = lambda: None) -> None:
        self.size = size
        self._read = read

    @cached_property
    def opened(self) -> memoryview:
        """All contents, decompressed. Raises StateError if their size is not the one that the index names."""
        packed = self._read() or b""
        if len(packed) != self.size:
            raise StateError(
                f"the checkpoint holds {len(packed)} bytes of connections where {self.size} belong: "
                "bring the folder back as it was, or start with a new checkpoint folder"
            )
        return memoryview(_DECOMPRESSOR.decompress(packed) if packed else b"")

    @classmethod
    def of(cls, opened: bytes) -> Self:
        """Return contents that are not stored yet."""
        contents = cls()
        contents.opened = memoryview(opened)
        return contents


def pack_contents(contents: Iterable[bytes | memoryview]) -> bytes:
    """Join and compress contents."""
    together = b"".join(contents)
    return _COMPRESSOR.compress(together) if together else b""
