"""The identities of a bucket as the query keeps them: as bytes, of which a batch decodes what it touches.

An *index* of fixed width says of every identity, in the order of their latest claims, what is asked of all of
them: the digest of the name, the latest claim, the tick that judges it, and where its content is. The
*contents* are in pages, each a value of its own in the state store. A page is written once: what changes is
written to a new page, and the old content is *dead*. A page whose living contents fill less than half of
PAGE_BYTES is given up, and they move to the new one. So a step reads and writes about as much as it changes,
at most half of what is stored is dead, and small pages unite.

The contract: each method leaves the same identities in the same order, and yields the same, as that of
`IdentityState`, whatever was stored in between. A property test compares both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from expectations.judging.identity_state import GROUP_LIMIT, Group
from streaming.state import StateError

STATE_VERSION: Final = 2
ID_BYTES: Final = 16
INDEX: Final = np.dtype(
    [("latest_at", "<i8"), ("page", "<u4"), ("begin", "<u4"), ("size", "<u4"), ("due_tick", "<u4")]
)
"""The dtype of an identity's row: when it was last claimed, where its content is, when it is judged next."""
PAGE_BYTES: Final = 128 * 1024
"""Contents are added to a page until it has this size, before compression."""
_ENCODER = msgspec.msgpack.Encoder()
_GROUP = msgspec.msgpack.Decoder(Group)
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


class IdentitiesLayout(NamedTuple):
    """What is to be stored: IDs and rows of the index, the sizes of all pages, and the pages that change."""

    ids: bytes
    rows: npt.NDArray[Any]
    sizes: dict[int, int]
    written: dict[int, bytes]
    removed: list[int]


class StoredIdentities:
    """The identities of one bucket, those of the index and those that were claimed since it was read."""

    def __init__(self, clock: int, tick: int, ids: bytes, rows: npt.NDArray[Any], pages: Pages) -> None:
        self.clock = clock
        self.tick = tick
        self._ids = ids
        self._rows = rows
        self._pages = pages
        self._is_kept = np.ones(len(rows), np.bool_)
        """Whether the identity at a place of the index is still there, not removed nor claimed since."""
        self._decoded: dict[int, Group] = {}
        """Identities that may have changed in place, by their places."""
        self._claimed: dict[bytes, Group] = {}
        """Identities that were claimed since, by their IDs, the latest at the end."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_kept)) + len(self._claimed)

    def claimed(self, name: str) -> Group:
        """Return an identity that is claimed now; it becomes the latest."""
        identity = id_of(name)
        group = self._claimed.pop(identity, None)
        if group is None:
            place = self._places.get(identity)
            group = self._remove(place) if place is not None and self._is_kept[place] else Group()
        self._claimed[identity] = group
        return group

    def surplus(self) -> Iterator[Group]:
        """Remove and yield what is above GROUP_LIMIT."""
        surplus = len(self) - GROUP_LIMIT
        for place in np.flatnonzero(self._is_kept)[: max(surplus, 0)].tolist():
            yield self._remove(place)
        while len(self) > GROUP_LIMIT:
            yield self._claimed.pop(next(iter(self._claimed)))

    def is_settled(self) -> bool:
        """Whether no identity has a tick to come at which it is due."""
        due = self._is_kept & (self._rows["due_tick"] > 0)
        due[[place for place, group in self._decoded.items() if not group.due_tick]] = False
        return not due.any() and not any(group.due_tick for group in self._claimed.values())

    def due(self) -> Iterator[Group]:
        """Yield the identities that are due at `tick`; a row may name an earlier tick than its group."""
        due_ticks = self._rows["due_tick"]
        for place in np.flatnonzero(self._is_kept & (due_ticks > 0) & (due_ticks <= self.tick)).tolist():
            if 0 < self._group(place).due_tick <= self.tick:
                yield self._group(place)
        yield from (group for group in self._claimed.values() if 0 < group.due_tick <= self.tick)

    def forget_silent(self, since: int) -> None:
        """Forget what was last claimed before `since`."""
        latest_at = self._rows["latest_at"]
        for place in np.flatnonzero(self._is_kept & (latest_at > 0) & (latest_at < since)).tolist():
            group = self._group(place)
            if group.is_silent(since):
                group.forget_silent()
                self._is_kept[place] = bool(group.known)
        for identity, group in list(self._claimed.items()):
            if group.is_silent(since):
                group.forget_silent()
                if not group.known:
                    del self._claimed[identity]

    def stored(self) -> IdentitiesLayout:
        """Lay the identities out. What was not decoded is not encoded either."""
        kept = np.flatnonzero(self._is_kept)
        places = [place for place in self._decoded if self._is_kept[place]]
        if len(kept) == len(self._rows) and not places and not self._claimed:
            return IdentitiesLayout(self._ids, self._rows, dict(self._pages.sizes), {}, [])
        rows = np.zeros(len(kept) + len(self._claimed), INDEX)
        rows[: len(kept)] = self._rows[kept]
        at_places = np.searchsorted(kept, places).tolist()
        changed = [*at_places, *range(len(kept), len(rows))]
        given_up, moved = self._given_up(rows, changed)
        new = NewPages(self._pages.next_number())
        for at in moved:
            rows["page"][at], rows["begin"][at] = new.add(self._content(rows, at))
        groups = [*(self._decoded[place] for place in places), *self._claimed.values()]
        for at, group in zip(changed, groups, strict=True):
            content = _ENCODER.encode(group)
            rows[at] = (group.latest_at, *new.add(content), len(content), group.due_tick)
        written = new.packed()
        sizes = {number: size for number, size in self._pages.sizes.items() if number not in given_up}
        sizes |= {number: len(page) for number, page in written.items()}
        ids = np.frombuffer(self._ids, f"V{ID_BYTES}")[kept].tobytes() + b"".join(self._claimed)
        return IdentitiesLayout(ids, rows, sizes, written, sorted(given_up))

    def _given_up(self, rows: npt.NDArray[Any], changed: list[int]) -> tuple[set[int], list[int]]:
        """Return the pages to give up, and the places of the unchanged rows that must move from them."""
        is_unchanged = np.ones(len(rows), np.bool_)
        is_unchanged[changed] = False
        numbers = np.fromiter(self._pages.sizes, np.int64, len(self._pages.sizes))
        of_row = np.searchsorted(numbers, rows["page"][is_unchanged])
        alive = np.bincount(of_row, rows["size"][is_unchanged], len(numbers))
        given_up = outlived(zip(numbers.tolist(), alive.tolist(), strict=True))
        moved = np.flatnonzero(is_unchanged & np.isin(rows["page"], given_up))
        return set(given_up), moved.tolist()

    @cached_property
    def _places(self) -> dict[bytes, int]:
        ids = np.frombuffer(self._ids, f"V{ID_BYTES}").tolist()
        return {identity: place for place, identity in enumerate(ids)}

    def _group(self, place: int) -> Group:
        """Return the identity at a place, which may then be changed."""
        if place not in self._decoded:
            self._decoded[place] = _GROUP.decode(self._content(self._rows, place))
        return self._decoded[place]

    def _content(self, rows: npt.NDArray[Any], at: int) -> bytes:
        _, page, begin, size, _ = rows[at].tolist()
        return self._pages.content(Location(page, begin), size)

    def _remove(self, place: int) -> Group:
        group = self._group(place)
        self._is_kept[place] = False
        return group


def id_of(name: str) -> bytes:
    """Return the digest that the index has for a name, too long for anybody to find two names of one."""
    return hashlib.blake2b(name.encode(), digest_size=ID_BYTES).digest()


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
    tick: int = 0
    ids: bytes = b""
    rows: bytes = b""
    pages: dict[int, int] = {}


_DECODER = msgspec.msgpack.Decoder(_Index)


def pack_identities(identities: StoredIdentities) -> PackedIdentities:
    """Lay a bucket of identities out for the state store."""
    stored = identities.stored()
    by_byte = stored.rows.view(np.uint8).reshape(-1, INDEX.itemsize).T.tobytes()
    index = _Index(identities.clock, identities.tick, stored.ids, by_byte, stored.sizes)
    packed = bytes([STATE_VERSION]) + _COMPRESSOR.compress(_ENCODER.encode(index))
    return PackedIdentities(packed, stored.written, stored.removed, len(packed) + sum(stored.sizes.values()))


def unpack_identities(stored: bytes | None, read_page: Callable[[int], bytes | None]) -> StoredIdentities:
    """Decode a bucket of identities; None is one that was never stored. Raises StateError.

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
    return StoredIdentities(index.clock, index.tick, index.ids, rows, Pages(index.pages, read_page))
