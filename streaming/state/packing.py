"""Compression of what is stored or passed on to another stage, and a check that it came back whole.

One thread of a process may compress and decompress: both keep a buffer.
"""

from __future__ import annotations

from typing import Final

import zstandard

from streaming.state import StateError

compress: Final = zstandard.ZstdCompressor(level=1).compress
decompress: Final = zstandard.ZstdDecompressor().decompress


def whole(packed: bytes | None, size: int, what: str) -> bytes:
    """Return a stored value of `what`, empty if there is none. Raises StateError unless it has its size."""
    packed = packed or b""
    if len(packed) != size:
        raise StateError(
            f"the checkpoint holds {len(packed)} bytes of {what} where {size} belong: "
            "bring the folder back as it was, or start with a new checkpoint folder"
        )
    return packed
