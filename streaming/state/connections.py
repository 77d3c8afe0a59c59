"""The connections of a bucket: stored as bytes, and read one by one when they are needed.

A batch concerns few of the connections that a bucket holds. The others pass from one stored state to the next
as bytes. What must be known of all of them (which are open, silent for long, or have news) is in an index of
fixed width, and so is the progress of a connection that merely repeats itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from decoders.frame.columnar.block import ID_BYTES
from expectations.conversation.bodies import SoftwareClaim
from expectations.judging.judge import ConnectionState
from streaming.state.connection_layout import (
    INDEX,
    NOWHERE,
    PROGRESS_BYTES,
    ConnectionLayout,
    Row,
    StoredValues,
    read_row,
    write_progress,
    write_row,
)
from streaming.state.contents import Contents, pack_contents
from streaming.state.finding import places_of
from streaming.state.stored_ids import StoredIds

LEAST_SHARED = 64
"""Shared values that are kept whether or not connections refer to them."""


class StoredConnections(msgspec.Struct, array_like=True):
    """The stored form of all connections. `ids` holds the ID of each, `index` its row.

    The index has the first byte of every row, then the second, and so on: similar bytes are adjacent, which
    compresses to two thirds of the size, at eight times the speed. `contents_size` is the size of the
    contents.
    """

    ids: bytes = b""
    index: bytes = b""
    values: StoredValues = msgspec.field(default_factory=StoredValues)
    contents_size: int = 0


class LaidOut(NamedTuple):
    """A connection as it is stored: its ID, its row and its content."""

    id: bytes
    row: Row
    content: bytes


class Connections(MutableMapping[bytes, ConnectionState]):
    """The states of connections by their IDs. A state that was read may be changed in place."""

    def __init__(self, stored: StoredConnections | None = None, contents: Contents | None = None) -> None:
        stored = stored or StoredConnections()
        self._ids = StoredIds(stored.ids)
        self._index = _by_row(stored.index)
        self._contents = contents or Contents()
        self.layout = ConnectionLayout(stored.values)
        self._read: dict[bytes, ConnectionState] = {}
        self._is_stored = np.ones(len(self._index), np.bool_)
        self._has_added = False
        self._replaced: dict[bytes, int] = {}
        """The places of connections that were stored at another place, too."""

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
        # A caller reads stored connections while it iterates.
        yield from [*map(self._ids.at, np.flatnonzero(self._is_stored).tolist()), *self._read]

    def __len__(self) -> int:
        return len(self._read) + int(self._is_stored.sum())

    def place(self, connection: bytes) -> int:
        """Return the place of a connection that is stored and was not read yet, else NOWHERE."""
        place = self._find(connection)
        return place if place != NOWHERE and self._is_stored[place] else NOWHERE

    def places(self, ids: bytes) -> npt.NDArray[np.int64]:
        """Return the place of each of the IDs, one after the other, as `place` does.

        NOWHERE is the place of an ID that stands there more than once, too.
        """
        if self._replaced:
            return np.full(len(ids) // ID_BYTES, NOWHERE, np.int64)
        return places_of(ids, self._ids.joined, self._is_stored)

    def rows(self, places: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return the rows of the connections at places, as an array of INDEX."""
        return self._index[places]

    def advance_all(self, places: npt.NDArray[np.int64], progress: npt.NDArray[np.int64]) -> None:
        """Replace the progress of the connections at places; `progress` (int64) has a row for each."""
        by_byte = self._index.view(np.uint8).reshape(len(self._index), INDEX.itemsize)
        by_byte[places, :PROGRESS_BYTES] = progress.view(np.uint8)
        self._index["has_news"][places] = True

    def set_in_flight(self, place: int, in_flight: int) -> None:
        """Replace the requests in flight of the connection at a place."""
        self._index["in_flight"][place] = in_flight

    def is_unknown(self, connection: bytes) -> bool:
        """Whether a connection is neither stored nor read, nor was removed since the bucket was loaded."""
        return connection not in self._read and self._find(connection) == NOWHERE

    def add(self, laid_out: Sequence[LaidOut]) -> None:
        """Add connections as they are stored, or replace them. The offset behind the content is set here."""
        if not laid_out:
            return
        for place, connection in enumerate(laid_out, start=len(self._index)):
            if self._forget(connection.id):
                self._replaced[connection.id] = place
        added = np.empty(len(laid_out), INDEX)
        for at, connection in enumerate(laid_out):
            write_row(added, at, connection.row)
        opened = self._contents.opened
        added["end"] = len(opened) + np.cumsum([len(connection.content) for connection in laid_out])
        self._contents = Contents.of(b"".join([opened, *(connection.content for connection in laid_out)]))
        self._ids.append([connection.id for connection in laid_out])
        self._index = np.concatenate([self._index, added])
        self._is_stored = np.concatenate([self._is_stored, np.ones(len(added), np.bool_)])
        self._has_added = True

    def row(self, place: int) -> Row:
        """Return the row of the connection at a place."""
        return read_row(self._index, place)

    def content(self, place: int) -> memoryview:
        """Return the content of the connection at a place."""
        return self._contents.opened[self._begin(place) : self._begin(place + 1)]

    def advance(self, place: int, progress: tuple[int, ...], in_flight: int) -> None:
        """Replace progress and requests in flight of the connection at a place; its content stays."""
        write_progress(self._index, place, progress, in_flight)

    def latest_sequence(self, connection: bytes) -> int:
        """Return the latest sequence of a connection, 0 if it is unknown, without reading it."""
        if connection in self._read:
            return self[connection].conversation.progress.sequence
        place = self.place(connection)
        return 0 if place == NOWHERE else int(self._index["sequence"][place])

    def with_news(self) -> list[ConnectionState]:
        """Read the connections that may have findings or identities to publish again."""
        stored = np.flatnonzero(self._is_stored & (self._index["has_news"] != 0)).tolist()
        return [self[connection] for connection in [*self._read, *map(self._ids.at, stored)]]

    def drop_silent(self, since: int) -> None:
        """Remove the connections whose latest record was captured before `since`, in nanoseconds."""
        self._is_stored &= self._index["captured_at"] >= since
        for connection in list(self._read):
            if self[connection].conversation.progress.captured_at < since:
                del self._read[connection]

    def by_software(self) -> Counter[tuple[SoftwareClaim | None, str]]:
        """Count the open connections by client software, None if it is unknown, and server."""
        kept = self._index[self._is_stored]
        both = kept["software"].astype(np.int64) << 32 | kept["server"]
        places, counts = np.unique(both, return_counts=True)
        found: Counter[tuple[SoftwareClaim | None, str]] = Counter()
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            found[self.layout.software(place >> 32), self.layout.servers.value(place & 0xFFFFFFFF)[1]] = count
        for state in self._read.values():
            found[state.conversation.software, state.conversation.server] += 1
        return found

    def stored(self) -> tuple[StoredConnections, bytes | None]:
        """Lay the connections out: those not read in their order, then the others.

        Returns the packed contents as well, None if they have not changed.
        """
        if len(self.layout) > LEAST_SHARED + 2 * len(StoredValues.__struct_fields__) * len(self):
            self._rebuild_values()
        if not self._read and not self._has_added and self._is_stored.all():
            return self._laid_out(self._ids.joined, self._index, self._contents.size), None
        kept, runs = np.flatnonzero(self._is_stored), list(self._kept_runs())
        encoded = [self.layout.content(state) for state in self._read.values()]
        index = np.empty(len(kept) + len(encoded), INDEX)
        index[: len(kept)] = self._index[kept]
        for at, state in enumerate(self._read.values(), len(kept)):
            write_row(index, at, self.layout.row(state, end=0))
        lengths = np.diff(self._index["end"], prepend=np.uint32(0))[kept]
        index["end"] = np.cumsum(np.append(lengths, [len(content) for content in encoded]))
        ids = [self._ids.joined[begin * ID_BYTES : end * ID_BYTES] for begin, end in runs]
        opened = self._contents.opened
        packed = pack_contents(
            [*(opened[self._begin(begin) : self._begin(end)] for begin, end in runs), *encoded]
        )
        return self._laid_out(b"".join([*ids, *self._read]), index, len(packed)), packed

    def _laid_out(self, ids: bytes, index: npt.NDArray[Any], contents_size: int) -> StoredConnections:
        by_byte = index.view(np.uint8).reshape(len(index), INDEX.itemsize).T
        return StoredConnections(ids, by_byte.tobytes(), self.layout.stored, contents_size)

    def _rebuild_values(self) -> None:
        """Begin new tables: no connection refers to most of the values in the old ones."""
        for connection in self:
            self[connection]
        self.layout = ConnectionLayout()

    def _kept_runs(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each run of places that are unchanged."""
        edges = np.flatnonzero(np.diff(self._is_stored.astype(np.int8), prepend=0, append=0)).tolist()
        yield from zip(edges[::2], edges[1::2], strict=True)

    def _find(self, connection: bytes) -> int:
        """Return the place of a connection in the index, also if it was read or removed, else NOWHERE."""
        if connection in self._replaced:
            return self._replaced[connection]
        return self._ids.find(connection)

    def _begin(self, place: int) -> int:
        return int(self._index["end"][place - 1]) if place else 0

    def _forget(self, connection: bytes) -> bool:
        place = self.place(connection)
        if place != NOWHERE:
            self._is_stored[place] = False
        return place != NOWHERE


def _by_row(stored: bytes) -> npt.NDArray[Any]:
    by_byte = np.frombuffer(stored, np.uint8).reshape(INDEX.itemsize, -1)
    return np.array(by_byte.T, order="C").view(INDEX).reshape(-1)
