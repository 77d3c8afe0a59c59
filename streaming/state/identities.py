"""The identities of a bucket as the query keeps them: as bytes, and decoded when a batch touches them.

It does what `IdentityState` does, which is the definition. What must be known of all identities, without
decoding them, is in an index of fixed width: the digest of the name, the latest claim, whether it is settled.
The order of the index is the order of the latest claims. The contents are in pages (`pages.py`).

The contract: each method leaves the same identities in the same order, and yields the same, as that of
`IdentityState`, whatever was stored in between. A property test compares both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from expectations.judging.identity_group import Group
from expectations.judging.identity_state import GROUP_LIMIT
from streaming.state.pages import Location, NewPages, Pages, outlived

ID_BYTES: Final = 16
INDEX: Final = np.dtype(
    [("latest_at", "<i8"), ("page", "<u4"), ("begin", "<u4"), ("size", "<u4"), ("is_unsettled", "?")]
)
"""The dtype of an identity's row: when it was last claimed, and where its content is."""
_ENCODER = msgspec.msgpack.Encoder()
_GROUP = msgspec.msgpack.Decoder(Group)


class Stored(NamedTuple):
    """What is to be stored: IDs and rows of the index, the sizes of all pages, and the pages that change."""

    ids: bytes
    rows: npt.NDArray[Any]
    sizes: dict[int, int]
    written: dict[int, bytes]
    removed: list[int]


class StoredIdentities:
    """The identities of one bucket, those of the index and those that were claimed since it was read."""

    def __init__(self, clock: int, ids: bytes, rows: npt.NDArray[Any], pages: Pages) -> None:
        self.clock = clock
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

    def unsettled(self) -> Iterator[Group]:
        """Yield the identities that are not settled."""
        for place in np.flatnonzero(self._is_kept & self._rows["is_unsettled"]).tolist():
            if self._group(place).is_unsettled:
                yield self._group(place)
        yield from (group for group in self._claimed.values() if group.is_unsettled)

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

    def stored(self) -> Stored:
        """Lay the identities out. What was not decoded is not encoded either."""
        kept = np.flatnonzero(self._is_kept)
        places = [place for place in self._decoded if self._is_kept[place]]
        if len(kept) == len(self._rows) and not places and not self._claimed:
            return Stored(self._ids, self._rows, dict(self._pages.sizes), {}, [])
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
            rows[at] = (group.latest_at, *new.add(content), len(content), group.is_unsettled)
        written = new.packed()
        sizes = {number: size for number, size in self._pages.sizes.items() if number not in given_up}
        sizes |= {number: len(page) for number, page in written.items()}
        ids = np.frombuffer(self._ids, f"V{ID_BYTES}")[kept].tobytes() + b"".join(self._claimed)
        return Stored(ids, rows, sizes, written, sorted(given_up))

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
