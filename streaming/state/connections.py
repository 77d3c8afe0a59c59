"""The connections of a bucket: laid out in bytes, and read one by one when they are asked for.

A batch names few of the connections that a bucket holds. The others pass from one stored state to the
next as they are: what must be known of all of them (who is open, who was silent for long, who has news)
stands in an index of fixed width, and so does what moves where a connection merely repeats itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from expectations.conversation.observation import SoftwareClaim
from expectations.judging.judge import ConnectionState
from streaming.state.connection_layout import INDEX, NOWHERE, ROW, ConnectionLayout, Row, SharedFacts
from streaming.state.contents import StoredContents, pack_contents

ID_BYTES = 16
LEAST_SHARED = 64
"""Shared facts that are kept whether or not connections have them."""


class StoredConnections(msgspec.Struct, array_like=True):
    """The layout of what is known of all connections. `ids` holds the id of each, `index` its Row.

    The index has the first byte of every row, then the second, and so on: what is alike stands together, and
    that compresses to two thirds, at eight times the speed. `contents_size` is what contents take beside it.
    """

    ids: bytes = b""
    index: bytes = b""
    shared: SharedFacts = msgspec.field(default_factory=SharedFacts)
    contents_size: int = 0


class Connections(MutableMapping[bytes, ConnectionState]):
    """The states of connections by their ids. Those that were asked for may be changed in place."""

    def __init__(
        self, stored: StoredConnections | None = None, contents: StoredContents | None = None
    ) -> None:
        stored = stored or StoredConnections()
        self._ids = stored.ids
        self._index = _by_row(stored.index)
        self._contents = contents or StoredContents()
        self.layout = ConnectionLayout(stored.shared)
        self._moved: dict[int, Row] = {}
        self._read: dict[bytes, ConnectionState] = {}
        self._is_stored = np.ones(len(self._index), np.bool_)

    def __getitem__(self, connection: bytes) -> ConnectionState:
        state = self._read.get(connection)
        if state is None:
            place = self.place(connection)
            if place == NOWHERE:
                raise KeyError(connection)
            state = self.layout.read(connection, self.row(place), self.content(place))
            self._read[connection] = state
            self._is_stored[place] = False
        return state

    def __setitem__(self, connection: bytes, state: ConnectionState) -> None:
        self._forget(connection)
        self._read[connection] = state

    def __delitem__(self, connection: bytes) -> None:
        if not self._forget(connection) and connection not in self._read:
            raise KeyError(connection)
        self._read.pop(connection, None)

    def __iter__(self) -> Iterator[bytes]:
        # Who looks at those that are stored reads them meanwhile.
        yield from [*map(self._id, np.flatnonzero(self._is_stored).tolist()), *self._read]

    def __len__(self) -> int:
        return len(self._read) + int(self._is_stored.sum())

    def place(self, connection: bytes) -> int:
        """Find a connection that is stored and was not asked for yet; NOWHERE if it is none."""
        at = self._ids.find(connection)
        while at % ID_BYTES and at != NOWHERE:
            at = self._ids.find(connection, at + 1)
        return at // ID_BYTES if at != NOWHERE and self._is_stored[at // ID_BYTES] else NOWHERE

    def row(self, place: int) -> Row:
        """Give what stands in the index of a connection at a place."""
        moved = self._moved.get(place)
        # To the types of Python 3.11 an array is no buffer.
        return moved or Row._make(ROW.unpack_from(self._index, place * ROW.size))  # type: ignore[arg-type]

    def content(self, place: int) -> memoryview:
        """Give the bytes of a connection at a place."""
        return self._contents.opened[self._begin(place) : self._begin(place + 1)]

    def move(self, place: int, row: Row) -> None:
        """Let a connection stand otherwise in the index, and be what it was else."""
        self._moved[place] = row

    def heard(self, connection: bytes) -> int:
        """Tell the latest sequence heard on a connection, 0 if it is not known, without reading it."""
        if connection in self._read:
            return self[connection].conversation.latest_sequence
        place = self.place(connection)
        return 0 if place == NOWHERE else self.row(place).heard

    def with_news(self) -> list[ConnectionState]:
        """Read the connections that may have something to tell again: findings, or identities."""
        self._settle()
        stirred = np.flatnonzero(self._is_stored & (self._index["stirred"] != 0)).tolist()
        return [self[connection] for connection in [*self._read, *map(self._id, stirred)]]

    def drop_silent(self, since: int) -> None:
        """Forget the connections whose latest record was captured before `since`, in nanoseconds."""
        self._settle()
        self._is_stored &= self._index["latest"] >= since
        for connection in list(self._read):
            if self[connection].conversation.latest_captured_at < since:
                del self._read[connection]

    def by_software(self) -> Counter[tuple[SoftwareClaim | None, str]]:
        """Count the open connections by client software, None if it did not say, and server."""
        kept = self._index[self._is_stored]
        both = kept["software"].astype(np.int64) << 32 | kept["server"]
        places, counts = np.unique(both, return_counts=True)
        found: Counter[tuple[SoftwareClaim | None, str]] = Counter()
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            found[self.layout.software_at(place >> 32), self.layout.servers.value(place & 0xFFFFFFFF)[1]] = (
                count
            )
        for state in self._read.values():
            found[state.conversation.software, state.conversation.server] += 1
        return found

    def stored(self) -> tuple[StoredConnections, bytes | None]:
        """Lay the connections out: those not asked for as they were, in their order, then the others.

        Gives their contents beside it, packed, or None where these are as they were.
        """
        self._settle()
        if len(self.layout) > LEAST_SHARED + 2 * len(SharedFacts.__struct_fields__) * len(self):
            self._share_anew()
        if not self._read and self._is_stored.all():
            return self._laid_out(self._ids, self._index, self._contents.size), None
        kept, runs = np.flatnonzero(self._is_stored), list(self._kept_runs())
        encoded = [self.layout.content(state) for state in self._read.values()]
        index = np.empty(len(kept) + len(encoded), INDEX)
        index[: len(kept)] = self._index[kept]
        index[len(kept) :] = [self.layout.row(state, end=0) for state in self._read.values()]
        lengths = np.diff(self._index["end"], prepend=np.uint32(0))[kept]
        index["end"] = np.cumsum(np.append(lengths, [len(content) for content in encoded]))
        ids = [self._ids[begin * ID_BYTES : end * ID_BYTES] for begin, end in runs]
        opened = self._contents.opened
        packed = pack_contents(
            [*(opened[self._begin(begin) : self._begin(end)] for begin, end in runs), *encoded]
        )
        return self._laid_out(b"".join([*ids, *self._read]), index, len(packed)), packed

    def _laid_out(self, ids: bytes, index: npt.NDArray[Any], contents_size: int) -> StoredConnections:
        by_byte = index.view(np.uint8).reshape(len(index), INDEX.itemsize).T
        return StoredConnections(ids, by_byte.tobytes(), self.layout.shared, contents_size)

    def _settle(self) -> None:
        """Put into the index what has moved."""
        if self._moved:
            self._index[list(self._moved)] = list(self._moved.values())
            self._moved.clear()

    def _share_anew(self) -> None:
        """Begin new tables: most of what the old ones hold is shared by nobody any more."""
        for connection in self:
            self[connection]
        self.layout = ConnectionLayout()

    def _kept_runs(self) -> Iterator[tuple[int, int]]:
        """Give begin and end of each run of places that stay as they are."""
        edges = np.flatnonzero(np.diff(self._is_stored.astype(np.int8), prepend=0, append=0)).tolist()
        yield from zip(edges[::2], edges[1::2], strict=True)

    def _begin(self, place: int) -> int:
        return int(self._index["end"][place - 1]) if place else 0

    def _id(self, place: int) -> bytes:
        return self._ids[place * ID_BYTES : (place + 1) * ID_BYTES]

    def _forget(self, connection: bytes) -> bool:
        place = self.place(connection)
        if place != NOWHERE:
            self._is_stored[place] = False
        return place != NOWHERE


def _by_row(stored: bytes) -> npt.NDArray[Any]:
    by_byte = np.frombuffer(stored, np.uint8).reshape(INDEX.itemsize, -1)
    return np.array(by_byte.T, order="C").view(INDEX).reshape(-1)
