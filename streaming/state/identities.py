"""The identities of a bucket as the query keeps them: as bytes, of which a batch decodes what it touches.

An *index* of fixed width says of every identity, in the order of their latest claims, what is asked of all of
them: the digest of the name, the latest claim, the tick that judges it, and where its content is. The
*contents* are in pages, each a value of its own in the state store. A page is written once: what changes is
written to a new page, and the old content is *dead*. A page whose living contents fill less than half of
PAGE_BYTES is given up, and they move to the new one. So a step reads and writes about as much as it changes,
at most half of what is stored is dead, and small pages unite.

A content is the known claims of an identity, one after the other as msgpack. A claim that no rule judges yet
is appended as it came; neither the claim nor the content is decoded.

The contract: each method leaves the same identities in the same order, and yields the same, as that of
`IdentityState`, whatever was stored in between. A property test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from expectations.identity.claim import DIGEST_BYTES, OF_CLIENTS, Claim, IdentityKind, PackedClaim
from expectations.judging.identity_state import ALIKE_LIMIT, GROUP_LIMIT, SETTLED_AFTER, Group, KnownClaim
from streaming.state import StateError

STATE_VERSION: Final = 3
INDEX: Final = np.dtype(
    [
        ("latest_at", "<i8"),
        ("page", "<u4"),
        ("begin", "<u4"),
        ("size", "<u4"),
        ("due_tick", "<u4"),
        ("known", "<u2"),
        ("has_forgotten", "<u2"),
    ]
)
"""The dtype of an identity's row: what its `Group` says, how many claims it has, and where its content is."""
PAGE_BYTES: Final = 128 * 1024
"""Contents are added to a page until it has this size, before compression."""
_ENCODER = msgspec.msgpack.Encoder()
_KNOWN = msgspec.msgpack.Decoder(list[KnownClaim])
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class _NewClaim(msgspec.Struct, array_like=True, gc=False):
    """A claim as it came. Decodes as `KnownClaim`."""

    claim: msgspec.Raw
    changed_tick: int
    accused: dict[str, str] = {}
    judged: list[str] = []


class PackedGroup(NamedTuple):
    """A `Group` whose `known` claims are packed in `content`."""

    content: bytes
    known: int
    latest_at: int
    due_tick: int
    has_forgotten: bool

    @classmethod
    def of(cls, group: Group) -> PackedGroup:
        """Pack an identity."""
        content = b"".join(map(_ENCODER.encode, group.known))
        return cls(content, len(group.known), group.latest_at, group.due_tick, group.has_forgotten)

    def group(self) -> Group:
        """Unpack the identity."""
        known = _KNOWN.decode(_ARRAY_16 + self.known.to_bytes(2) + self.content)
        return Group(known, self.latest_at, self.due_tick, self.has_forgotten)

    def appended(self, claim: PackedClaim, tick: int) -> PackedGroup | None:
        """Return what `Group.add` makes of a new claim; None if it may not be new, or if room is needed."""
        if self.known >= ALIKE_LIMIT or claim.connection in self.content:
            return None
        content = self.content + _ENCODER.encode(_NewClaim(claim.packed, tick))
        due_tick = max(self.due_tick, tick + 1) if self.known else tick + SETTLED_AFTER
        latest_at = max(self.latest_at, claim.until)
        return PackedGroup(content, self.known + 1, latest_at, due_tick, self.has_forgotten)


_ARRAY_16: Final = b"\xdc"
"""An array of msgpack, whose size follows in two bytes."""
_NOBODY: Final = PackedGroup(b"", 0, 0, 0, has_forgotten=False)


class Pages:
    """The stored pages. `sizes` are their stored sizes by number, `read` fetches one."""

    def __init__(self, sizes: Mapping[int, int], read: Callable[[int], bytes | None]) -> None:
        self.sizes = sizes
        self._read = read
        self._opened: dict[int, bytes] = {}

    def content(self, page: int, begin: int, size: int) -> bytes:
        """Return a content. Raises StateError if its page is not of the size that the index names."""
        if page not in self._opened:
            self._opened[page] = self._open(page)
        return self._opened[page][begin : begin + size]

    def _open(self, number: int) -> bytes:
        packed = self._read(number) or b""
        if len(packed) != self.sizes[number]:
            raise StateError(
                f"the checkpoint holds {len(packed)} bytes of identities where {self.sizes[number]} belong: "
                "bring the folder back as it was, or start with a new checkpoint folder"
            )
        return _DECOMPRESSOR.decompress(packed)


class NewPages:
    """Pages that are filled one after the other, with numbers from `number` on."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._filling: list[bytes] = []
        self._size = 0
        self._packed: dict[int, bytes] = {}

    def add(self, content: bytes) -> tuple[int, int]:
        """Add a content. Returns the number of its page, and where it begins there."""
        if self._size >= PAGE_BYTES:
            self._pack()
        begin = self._size
        self._filling.append(content)
        self._size += len(content)
        return self._number, begin

    def packed(self) -> dict[int, bytes]:
        """Return the pages by number, as they are stored."""
        if self._filling:
            self._pack()
        return self._packed

    def _pack(self) -> None:
        self._packed[self._number] = _COMPRESSOR.compress(b"".join(self._filling))
        self._number, self._filling, self._size = self._number + 1, [], 0


@dataclass(frozen=True, slots=True)
class PackedIdentities:
    """The values of a bucket: its index, and the pages to write and to remove; `size` is that of all."""

    index: bytes
    written: dict[int, bytes]
    removed: list[int]
    size: int


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
        self._claimed: dict[bytes, Group | PackedGroup] = {}
        """Identities that were claimed since, by their IDs, the latest at the end."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_kept)) + len(self._claimed)

    def claimed(
        self, claims: Iterable[Claim | PackedClaim], patient: Set[IdentityKind]
    ) -> Iterator[tuple[Group, list[Claim]]]:
        """Yield the identities that are claimed now, but those to which a claim could be appended."""
        claimed: dict[bytes, list[PackedClaim]] = {}
        for each in claims:
            claim = PackedClaim.of(each) if isinstance(each, Claim) else each
            claimed.setdefault(claim.digest, []).append(claim)
            self.clock = max(self.clock, claim.until)
        for identity, added in claimed.items():
            group = self._taken(identity)
            appended = None
            if len(added) == 1 and isinstance(group, PackedGroup) and _is_quiet(added[0], group, patient):
                appended = group.appended(added[0], self.tick)
            if appended is not None:
                self._claimed[identity] = appended
                continue
            group = self._claimed[identity] = group.group() if isinstance(group, PackedGroup) else group
            yield group, [claim.claim for claim in added]

    def surplus(self) -> Iterator[Group]:
        """Remove and yield what is above GROUP_LIMIT."""
        surplus = len(self) - GROUP_LIMIT
        for place in np.flatnonzero(self._is_kept)[: max(surplus, 0)].tolist():
            group, self._is_kept[place] = self._group(place), False
            yield group
        while len(self) > GROUP_LIMIT:
            identity = next(iter(self._claimed))
            yield self._unpacked(identity)
            del self._claimed[identity]

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
        for identity, claimed in list(self._claimed.items()):
            if 0 < claimed.due_tick <= self.tick:
                yield self._unpacked(identity)

    def forget_silent(self, since: int) -> None:
        """Forget what was last claimed before `since`."""
        latest_at = self._rows["latest_at"]
        for place in np.flatnonzero(self._is_kept & (latest_at > 0) & (latest_at < since)).tolist():
            group = self._group(place)
            if group.is_silent(since):
                group.forget_silent()
                self._is_kept[place] = bool(group.known)
        for identity, claimed in list(self._claimed.items()):
            if 0 < claimed.latest_at < since and not claimed.due_tick:
                group = self._unpacked(identity)
                group.forget_silent()
                if not group.known:
                    del self._claimed[identity]

    def packed(self) -> PackedIdentities:
        """Lay the identities out for the state store. Only those that were decoded are encoded."""
        kept = np.flatnonzero(self._is_kept)
        places = [place for place in self._decoded if self._is_kept[place]]
        if len(kept) == len(self._rows) and not places and not self._claimed:
            return self._with_index(self._ids, self._rows, self._pages.sizes, {}, [])
        rows = np.zeros(len(kept) + len(self._claimed), INDEX)
        rows[: len(kept)] = self._rows[kept]
        at_places = np.searchsorted(kept, places).tolist()
        changed = [*at_places, *range(len(kept), len(rows))]
        given_up, moved = self._given_up(rows, changed)
        new = NewPages(max(self._pages.sizes, default=-1) + 1)
        for at in moved:
            rows["page"][at], rows["begin"][at] = new.add(self._packed(rows, at).content)
        groups = [*(self._decoded[place] for place in places), *self._claimed.values()]
        for at, group in zip(changed, groups, strict=True):
            packed = PackedGroup.of(group) if isinstance(group, Group) else group
            content, known, latest_at, due_tick, has_forgotten = packed
            rows[at] = (latest_at, *new.add(content), len(content), due_tick, known, has_forgotten)
        written = new.packed()
        sizes = {number: size for number, size in self._pages.sizes.items() if number not in given_up}
        sizes |= {number: len(page) for number, page in written.items()}
        ids = np.frombuffer(self._ids, f"V{DIGEST_BYTES}")[kept].tobytes() + b"".join(self._claimed)
        return self._with_index(ids, rows, sizes, written, sorted(given_up))

    def _with_index(
        self,
        ids: bytes,
        rows: npt.NDArray[Any],
        sizes: Mapping[int, int],
        written: dict[int, bytes],
        removed: list[int],
    ) -> PackedIdentities:
        by_byte = rows.view(np.uint8).reshape(-1, INDEX.itemsize).T.tobytes()
        index = _ENCODER.encode(_Index(self.clock, self.tick, ids, by_byte, dict(sizes)))
        packed = bytes([STATE_VERSION]) + _COMPRESSOR.compress(index)
        return PackedIdentities(packed, written, removed, len(packed) + sum(sizes.values()))

    def _given_up(self, rows: npt.NDArray[Any], changed: list[int]) -> tuple[set[int], list[int]]:
        """Return the pages to give up, and the places of the unchanged rows that must move from them."""
        is_unchanged = np.ones(len(rows), np.bool_)
        is_unchanged[changed] = False
        numbers = np.fromiter(self._pages.sizes, np.int64, len(self._pages.sizes))
        of_row = np.searchsorted(numbers, rows["page"][is_unchanged])
        alive = np.bincount(of_row, rows["size"][is_unchanged], len(numbers))
        given_up = numbers[alive < PAGE_BYTES // 2].tolist()
        moved = np.flatnonzero(is_unchanged & np.isin(rows["page"], given_up))
        return set(given_up), moved.tolist()

    @cached_property
    def _places(self) -> dict[bytes, int]:
        ids = np.frombuffer(self._ids, f"V{DIGEST_BYTES}").tolist()
        return {identity: place for place, identity in enumerate(ids)}

    def _group(self, place: int) -> Group:
        """Return the identity at a place, which may then be changed."""
        if place not in self._decoded:
            self._decoded[place] = self._packed(self._rows, place).group()
        return self._decoded[place]

    def _packed(self, rows: npt.NDArray[Any], at: int) -> PackedGroup:
        latest_at, page, begin, size, due_tick, known, has_forgotten = rows[at].tolist()
        content = self._pages.content(page, begin, size)
        return PackedGroup(content, known, latest_at, due_tick, bool(has_forgotten))

    def _taken(self, identity: bytes) -> Group | PackedGroup:
        """Remove an identity that is claimed now and return it, or nobody."""
        if identity in self._claimed:
            return self._claimed.pop(identity)
        place = self._places.get(identity)
        if place is None or not self._is_kept[place]:
            return _NOBODY
        self._is_kept[place] = False
        return self._decoded[place] if place in self._decoded else self._packed(self._rows, place)

    def _unpacked(self, identity: bytes) -> Group:
        """Return an identity that was claimed, which may then be changed."""
        claimed = self._claimed[identity]
        group = self._claimed[identity] = claimed.group() if isinstance(claimed, PackedGroup) else claimed
        return group


def _is_quiet(claim: PackedClaim, group: PackedGroup, patient: Set[IdentityKind]) -> bool:
    """Whether no rule judges a claim on an identity yet."""
    return claim.kind in patient or (not group.known and claim.kind in OF_CLIENTS)


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
