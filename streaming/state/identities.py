"""The identities of a bucket as the query keeps them: as bytes, of which a batch decodes what it touches.

An *index* has one row of fixed width for each identity, ordered by latest claim: digest, latest claim, due
tick, and where its content is. The *contents* are in pages, each a value of its own in the state store. A
page is written once: what changes is written to a new page, and the old content is *dead*. A page whose
living contents fill less than half of PAGE_BYTES is given up, and they move to the new one. So a step reads
and writes about as much as it changes, at most half of what is stored is dead, and small pages unite.

A content is the known claims of an identity, one after the other as msgpack. A claim that no rule judges yet
is appended as it came; neither the claim nor the content is decoded.

The contract: each method leaves the same identities in the same order, and yields the same, as that of
`IdentityState`, whatever was stored in between. A property test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from decoders.memory import bounds_of, gathered
from decoders.open_addressing import grouped
from expectations.identity.claim import DIGEST_BYTES, OF_CLIENTS, Claim, IdentityKind
from expectations.identity.packed_claims import PackedClaims
from expectations.judging.identity_state import ALIKE_LIMIT, GROUP_LIMIT, SETTLED_AFTER, Group, KnownClaim
from streaming.state import StateError
from streaming.state.connections import KEYS, NOWHERE, places_of
from streaming.state.packing import compress, decompress, whole

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
_NOTHING: Final = _ENCODER.encode(None)
_KNOWN = msgspec.msgpack.Decoder(list[KnownClaim])


class _NewClaim(msgspec.Struct, array_like=True, gc=False):
    """A claim as it came. Decodes as `KnownClaim`."""

    claim: msgspec.Raw
    changed_tick: int
    accused: dict[str, str] = {}
    judged: list[str] = []


_ARRAY_16: Final = b"\xdc"
"""An array of msgpack, whose size follows in two bytes."""


class Pages:
    """The pages by number. `sizes` are the stored sizes of those in the state store, `read` fetches one.

    Numbers from `free` on are those of no stored page.
    """

    def __init__(self, sizes: Mapping[int, int], read: Callable[[int], bytes | None]) -> None:
        self.sizes = sizes
        self.free = max(sizes, default=-1) + 1
        self._read = read
        self._opened: dict[int, bytes] = {}

    def add(self, contents: bytes) -> int:
        """Keep contents, one after the other, in a page that is not stored; return its number."""
        number = self.free + len(self._opened)
        self._opened[number] = contents
        return number

    def lack(self, rows: npt.NDArray[Any], connections: Iterable[bytes]) -> list[bool]:
        """Return whether the content of each row lacks the ID of a connection. Raises StateError."""
        places = rows[["page", "begin", "size"]].tolist()
        return [
            self.page(page).find(connection, begin, begin + size) < 0
            for (page, begin, size), connection in zip(places, connections, strict=True)
        ]

    def gathered(self, rows: npt.NDArray[Any]) -> bytes:
        """Return the contents of rows, one after the other. Raises StateError like `page`."""
        used = np.unique(rows["page"][rows["size"] > 0])
        pages = [self.page(number) for number in used.tolist()]
        begins = bounds_of([*map(len, pages)])[np.searchsorted(used, rows["page"])] + rows["begin"]
        joined = np.frombuffer(b"".join(pages), np.uint8)
        contents, _ = gathered(joined, begins, rows["size"].astype(np.int64))
        return contents.tobytes()

    def page(self, number: int) -> bytes:
        """Return the contents of a page. Raises StateError if it is not of the size that the index names."""
        if number not in self._opened:
            packed = whole(self._read(number), self.sizes[number], "identities")
            self._opened[number] = decompress(packed)
        return self._opened[number]


@dataclass(frozen=True, slots=True)
class PackedIdentities:
    """The values of a bucket: its index, and the pages to write and to remove; `size` is that of all."""

    index: bytes
    written: dict[int, bytes]
    removed: list[int]
    size: int


class StoredIdentities:
    """The identities of one bucket. An identity with a new claim moves to the end."""

    def __init__(self, clock: int, tick: int, ids: bytes, rows: npt.NDArray[Any], pages: Pages) -> None:
        self.clock = clock
        self.tick = tick
        self._ids = ids
        self._rows = rows
        self._pages = pages
        self._is_kept = np.ones(len(rows), np.bool_)
        """Whether a row counts: its identity was neither removed nor given a new row."""
        self._decoded: dict[int, Group] = {}
        """Identities that may have changed in place, by the places of their rows."""

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_kept))

    def claimed(
        self, claims: Iterable[Claim], patient: Set[IdentityKind]
    ) -> Iterator[tuple[Group, list[Claim]]]:
        """Yield the identities that are claimed now, but those to which a claim could be appended."""
        packed = claims if isinstance(claims, PackedClaims) else PackedClaims.of(claims)
        if not packed:
            return
        table, first = packed.table, len(self._rows)
        self.clock = max(self.clock, int(table["until"].max()))
        digests = table["digest"].copy()
        members, leading = grouped(KEYS, digests.view(np.int64).reshape(-1, 2))
        counts = np.bincount(members)
        self._renew(digests[leading].tobytes())
        is_appended = self._append(first, packed, leading, counts == 1, patient)
        order = np.argsort(members, kind="stable")
        judged = iter(packed.chosen(order[~is_appended[members[order]]]))
        for number in np.flatnonzero(~is_appended).tolist():
            yield self._group(first + number), list(islice(judged, int(counts[number])))

    def surplus(self) -> Iterator[Group]:
        surplus = len(self) - GROUP_LIMIT
        for place in np.flatnonzero(self._is_kept)[: max(surplus, 0)].tolist():
            group, self._is_kept[place] = self._group(place), False
            yield group

    def is_settled(self) -> bool:
        return not (self._is_kept & (self._noted()["due_tick"] > 0)).any()

    def due(self) -> Iterator[Group]:
        due_ticks = self._noted()["due_tick"]
        is_due = self._is_kept & (due_ticks > 0) & (due_ticks <= self.tick)
        yield from map(self._group, np.flatnonzero(is_due).tolist())

    def forget_silent(self, since: int) -> None:
        latest_at = self._noted()["latest_at"]
        for place in np.flatnonzero(self._is_kept & (latest_at > 0) & (latest_at < since)).tolist():
            group = self._group(place)
            if group.is_silent(since):
                group.forget_silent()
                self._is_kept[place] = bool(group.known)

    def packed(self) -> PackedIdentities:
        """Lay the identities out for the state store. Only those that were decoded are encoded."""
        rows, sizes = self._noted(), self._pages.sizes
        is_changed = self._is_decoded() | (rows["page"] >= self._pages.free)
        if self._is_kept.all() and not is_changed.any():
            return self._with_index(self._ids, rows, sizes, {}, [])
        kept = np.flatnonzero(self._is_kept)
        rows, is_changed = rows[kept], is_changed[kept]
        given_up = _given_up(rows[~is_changed], sizes)
        is_moved = is_changed | np.isin(rows["page"], given_up)
        rows[is_moved], written = self._moved(kept[is_moved])
        sizes = {number: size for number, size in sizes.items() if number not in given_up}
        sizes |= {number: len(page) for number, page in written.items()}
        ids = np.frombuffer(self._ids, f"V{DIGEST_BYTES}")[kept].tobytes()
        return self._with_index(ids, rows, sizes, written, given_up)

    def _moved(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], dict[int, bytes]]:
        """Put the contents of some rows into new pages; return the rows with their places, and the pages."""
        decoded = [place for place in places.tolist() if place in self._decoded]
        encoded = [b"".join(map(_ENCODER.encode, self._decoded[place].known)) for place in decoded]
        fresh = self._rows[decoded]
        fresh["page"], fresh["size"] = self._pages.add(b"".join(encoded)), [*map(len, encoded)]
        fresh["begin"] = bounds_of(fresh["size"])[:-1]
        self._rows[decoded] = fresh
        rows, written = self._rows[places], dict[int, bytes]()
        contents, bounds = self._pages.gathered(rows), bounds_of(rows["size"])
        for begin, end in pairwise(_bounds_of_pages(rows["size"])):
            number = self._pages.free + len(written)
            rows["page"][begin:end] = number
            rows["begin"][begin:end] = bounds[begin:end] - bounds[begin]
            written[number] = compress(contents[bounds[begin] : bounds[end]])
        return rows, written

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
        packed = bytes([STATE_VERSION]) + compress(index)
        return PackedIdentities(packed, written, removed, len(packed) + sum(sizes.values()))

    def _renew(self, identities: bytes) -> None:
        """Give identities rows behind all others: copies of their rows, or zeros for those that are new."""
        first, count = len(self._rows), len(identities) // DIGEST_BYTES
        known = places_of(identities, self._ids, self._is_kept)
        is_known = known != NOWHERE
        earlier, later = known[is_known], first + np.flatnonzero(is_known)
        self._is_kept[earlier] = False
        self._is_kept = np.append(self._is_kept, np.ones(count, np.bool_))
        self._rows = np.append(self._rows, np.zeros(count, INDEX))
        self._rows[later] = self._rows[earlier]
        self._ids += identities
        for before, place in zip(earlier.tolist(), later.tolist(), strict=True):
            if before in self._decoded:
                self._decoded[place] = self._decoded.pop(before)

    def _append(
        self,
        first: int,
        packed: PackedClaims,
        leading: npt.NDArray[np.int64],
        is_single: npt.NDArray[np.bool_],
        patient: Set[IdentityKind],
    ) -> npt.NDArray[np.bool_]:
        """Append claims that no rule judges yet to the rows from `first` on, and return which were appended.

        The identity of each row has the claim with the number in `leading`, alone if it `is_single`. A claim
        of a connection that has one already may be a later snapshot, and one of many may need room: neither
        is appended.
        """
        table, rows = packed.table[leading], self._rows[first:]
        is_new, kinds = rows["known"] == 0, table["kind"]
        is_quiet = np.isin(kinds, [*patient]) | (is_new & np.isin(kinds, [*OF_CLIENTS]))
        fits: npt.NDArray[np.bool_] = (
            is_quiet & is_single & (rows["known"] < ALIKE_LIMIT) & ~self._is_decoded()[first:]
        )
        asked = np.flatnonzero(fits & ~is_new)
        fits[asked] = self._pages.lack(rows[asked], table["connection"][asked].tolist())
        rows = rows[fits]
        contents, sizes = self._with_claims(rows, packed.chosen(leading[fits]))
        soonest = self.tick + np.where(rows["known"], 1, SETTLED_AFTER)
        rows["due_tick"] = np.maximum(rows["due_tick"], soonest)
        rows["latest_at"] = np.maximum(rows["latest_at"], table["until"][fits])
        rows["known"] += 1
        rows["page"] = self._pages.add(contents)
        rows["size"], rows["begin"] = sizes, np.cumsum(sizes) - sizes
        self._rows[first:][fits] = rows
        return fits

    def _with_claims(
        self, rows: npt.NDArray[Any], claims: PackedClaims
    ) -> tuple[bytes, npt.NDArray[np.int64]]:
        """Return the contents of rows, each with a claim at its end, and their sizes."""
        begin, _, end = _ENCODER.encode(_NewClaim(msgspec.Raw(_NOTHING), self.tick)).partition(_NOTHING)
        before = self._pages.gathered(rows)
        sizes = np.full((len(rows), 4), (0, len(begin), 0, len(end)))
        sizes[:, 0], sizes[:, 2] = rows["size"], claims.table["size"]
        begins = np.zeros_like(sizes)
        begins[:, 3] = len(begin)
        begins[:, 0] = len(begin) + len(end) + bounds_of(rows["size"])[:-1]
        begins[:, 2] = len(begin) + len(end) + len(before) + claims.bounds[:-1]
        pieces = np.frombuffer(b"".join((begin, end, before, claims.packed)), np.uint8)
        contents, _ = gathered(pieces, begins.ravel(), sizes.ravel())
        return contents.tobytes(), sizes.sum(axis=1)

    def _is_decoded(self) -> npt.NDArray[np.bool_]:
        is_decoded = np.zeros(len(self._rows), np.bool_)
        is_decoded[list(self._decoded)] = True
        return is_decoded

    def _noted(self) -> npt.NDArray[Any]:
        """Return the rows, with what decoded identities say of themselves."""
        said = self._rows[["known", "latest_at", "due_tick", "has_forgotten"]]
        for place, group in self._decoded.items():
            said[place] = len(group.known), group.latest_at, group.due_tick, group.has_forgotten
        return self._rows

    def _group(self, place: int) -> Group:
        """Return the identity in a row, which may then be changed."""
        if place not in self._decoded:
            latest_at, page, begin, size, due_tick, known, has_forgotten = self._rows[place].tolist()
            content = self._pages.page(page)[begin : begin + size] if known else b""
            decoded = _KNOWN.decode(_ARRAY_16 + known.to_bytes(2) + content)
            self._decoded[place] = Group(decoded, latest_at, due_tick, bool(has_forgotten))
        return self._decoded[place]


def _given_up(rows: npt.NDArray[Any], pages: Iterable[int]) -> list[int]:
    """Return the pages of which less than half of PAGE_BYTES is the content of some row."""
    numbers = np.array([*pages], np.int64)
    alive = np.bincount(np.searchsorted(numbers, rows["page"]), rows["size"], len(numbers))
    given_up: list[int] = numbers[alive < PAGE_BYTES // 2].tolist()
    return given_up


def _bounds_of_pages(sizes: npt.NDArray[np.int64]) -> list[int]:
    """Divide contents of some sizes into pages: each is filled until it has PAGE_BYTES."""
    ends, bounds = np.cumsum(sizes), [0]
    while bounds[-1] < len(sizes):
        filled = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(min(int(np.searchsorted(ends, filled + PAGE_BYTES)) + 1, len(sizes)))
    return bounds


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
    index = _DECODER.decode(decompress(stored[1:])) if stored is not None else _Index()
    by_byte = np.frombuffer(index.rows, np.uint8).reshape(INDEX.itemsize, -1)
    rows = by_byte.T.copy().view(INDEX).reshape(-1)
    return StoredIdentities(index.clock, index.tick, index.ids, rows, Pages(index.pages, read_page))
