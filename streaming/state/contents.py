"""What is kept of some connections beside their rows: findings, and states without a canonical form.

It is a value of its own in the state store, fetched when such a connection is first read, and written when
one changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec
import zstandard

from streaming.state import StateError

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[bytes, bytes])
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class Contents:
    """Contents by connection. `size` is their stored size, `read` fetches them."""

    def __init__(self, size: int = 0, read: Callable[[], bytes | None] = lambda: None) -> None:
        self.size = size
        self._read = read
        self._has_changed = False

    def keep(self, connection: bytes, content: bytes) -> None:
        """Keep the content of a connection."""
        self._opened[connection] = content
        self._has_changed = True

    def take(self, connection: bytes) -> bytes:
        """Return the content of a connection, and forget it. Raises StateError if it cannot be read."""
        self._has_changed = True
        return self._opened.pop(connection)

    def packed(self) -> bytes | None:
        """Return all contents for the state store, None if they have not changed."""
        if not self._has_changed:
            return None
        packed = _COMPRESSOR.compress(_ENCODER.encode(self._opened)) if self._opened else b""
        self.size = len(packed)
        return packed

    @cached_property
    def _opened(self) -> dict[bytes, bytes]:
        packed = self._read() or b""
        if len(packed) != self.size:
            raise StateError(
                f"the checkpoint holds {len(packed)} bytes of connections where {self.size} belong: "
                "bring the folder back as it was, or start with a new checkpoint folder"
            )
        return _DECODER.decode(_DECOMPRESSOR.decompress(packed)) if packed else {}
