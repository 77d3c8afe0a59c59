"""What is stored of connections beyond the index: opened when the first of them is read, and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import zstandard

from streaming.state.state_error import StateError

# Connections resemble each other: the fastest level leaves a fifth of their bytes.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class StoredContents:
    """The contents of a bucket's connections, one after the other; `size` is the stored bytes."""

    def __init__(self, size: int = 0, read: Callable[[], bytes | None] = lambda: None) -> None:
        self.size = size
        self._read = read

    @cached_property
    def opened(self) -> memoryview:
        """Give all of them. Raises StateError where they do not belong to the index."""
        packed = self._read() or b""
        if len(packed) != self.size:
            raise StateError(
                f"the checkpoint holds {len(packed)} bytes of connections where {self.size} belong: "
                "bring the folder back as it was, or start with a new checkpoint folder"
            )
        return memoryview(_DECOMPRESSOR.decompress(packed) if packed else b"")


def pack_contents(contents: Iterable[bytes | memoryview]) -> bytes:
    """Put contents together, to be stored."""
    together = b"".join(contents)
    return _COMPRESSOR.compress(together) if together else b""
