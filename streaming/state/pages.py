"""The pages of a bucket of identities: their contents in pieces, each a value of its own in the state store.

A page is written once and not changed: what changes is written to a new page, and the old content is *dead*.
A page of which less than half lives is given up, its living contents go to the new one. So a step reads and
writes about as much as it changes, at most half of what is stored is dead, and small pages unite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import zstandard

from streaming.state.state_error import StateError

PAGE_BYTES: Final = 128 * 1024
"""Contents are added to a page until it has this size, before compression."""
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class Location(NamedTuple):
    """Where a content is: the number of its page, and where it begins there."""

    page: int
    begin: int


class Pages:
    """The stored pages. `sizes` are their stored sizes by number, `read` fetches one."""

    def __init__(self, sizes: Mapping[int, int], read: Callable[[int], bytes | None]) -> None:
        self.sizes = sizes
        self._read = read
        self._opened: dict[int, bytes] = {}

    def content(self, location: Location, size: int) -> bytes:
        """Return a content. Raises StateError if its page is not of the size that the index names."""
        opened = self._opened.get(location.page)
        if opened is None:
            opened = self._opened[location.page] = self._open(location.page)
        return opened[location.begin : location.begin + size]

    def _open(self, number: int) -> bytes:
        packed = self._read(number) or b""
        if len(packed) != self.sizes[number]:
            raise StateError(
                f"the checkpoint holds {len(packed)} bytes of identities where {self.sizes[number]} belong: "
                "bring the folder back as it was, or start with a new checkpoint folder"
            )
        return _DECOMPRESSOR.decompress(packed)

    def next_number(self) -> int:
        """Return a number that no stored page has."""
        return max(self.sizes, default=-1) + 1


class NewPages:
    """Pages that are filled one after the other, with numbers from `number` on."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._filling: list[bytes] = []
        self._size = 0
        self._packed: dict[int, bytes] = {}

    def add(self, content: bytes) -> Location:
        """Add a content and return where it is."""
        if self._size >= PAGE_BYTES:
            self._pack()
        location = Location(self._number, self._size)
        self._filling.append(content)
        self._size += len(content)
        return location

    def packed(self) -> dict[int, bytes]:
        """Return the pages by number, as they are stored."""
        if self._filling:
            self._pack()
        return self._packed

    def _pack(self) -> None:
        self._packed[self._number] = _COMPRESSOR.compress(b"".join(self._filling))
        self._number, self._filling, self._size = self._number + 1, [], 0


def outlived(alive: Iterable[tuple[int, int]]) -> list[int]:
    """Return the pages to give up, of (number, bytes that live in it)."""
    return [number for number, size in alive if size < PAGE_BYTES // 2]
