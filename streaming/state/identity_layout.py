"""The layout of a bucket of identities in the state store: an index, and pages that it names.

The index is a version byte, then compressed msgpack. A batch reads and writes the index and the pages of the
identities that it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import zstandard

from streaming.state.identities import INDEX, StoredIdentities
from streaming.state.pages import Pages
from streaming.state.state_error import StateError

STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PackedIdentities:
    """The values of a bucket: its index, and the pages to write and to remove; `size` is that of all."""

    index: bytes
    written: dict[int, bytes]
    removed: list[int]
    size: int


class _Index(msgspec.Struct, array_like=True):
    """The layout of the index.

    `rows` has the first byte of every row, then the second, and so on: similar bytes are adjacent. `pages`
    holds the stored size of each page, in the order of their numbers.
    """

    clock: int = 0
    ids: bytes = b""
    rows: bytes = b""
    pages: dict[int, int] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Index)
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_identities(identities: StoredIdentities) -> PackedIdentities:
    """Lay a bucket of identities out for the state store."""
    stored = identities.stored()
    by_byte = stored.rows.view(np.uint8).reshape(-1, INDEX.itemsize).T.tobytes()
    index = _Index(identities.clock, stored.ids, by_byte, stored.sizes)
    packed = bytes([STATE_VERSION]) + _COMPRESSOR.compress(_ENCODER.encode(index))
    return PackedIdentities(packed, stored.written, stored.removed, len(packed) + sum(stored.sizes.values()))


def unpack_identities(stored: bytes | None, read_page: Callable[[int], bytes | None]) -> StoredIdentities:
    """Read it back; None is one that was never stored. Raises StateError.

    `read_page` fetches a page by its number. It is called when an identity of the page is first needed.
    """
    if stored is not None and stored[0] != STATE_VERSION:
        raise StateError(
            f"the checkpoint holds identities of version {stored[0]}, this kipwatch writes {STATE_VERSION}: "
            "start with a new checkpoint folder"
        )
    index = _DECODER.decode(_DECOMPRESSOR.decompress(stored[1:])) if stored is not None else _Index()
    by_byte = np.frombuffer(index.rows, np.uint8).reshape(INDEX.itemsize, -1)
    rows = np.ascontiguousarray(by_byte.T).view(INDEX).reshape(-1)
    return StoredIdentities(index.clock, index.ids, rows, Pages(index.pages, read_page))
