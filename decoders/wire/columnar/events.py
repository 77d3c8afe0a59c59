"""The records of a batch that are not frames: connections that open and close, gaps, raw SASL tokens.

Most of them say that a connection opened or closed, and nothing else. A row of `ChangeColumns` stands for
each of these until its record is asked for, whether compiled code tracked the connection or a block states
it. What compiled code knows of a connection stays numbers, too: a `LazyConnection` makes its record OPENED,
with the ID and the text of the addresses. Code that only counts frames never pays for records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Closing, Direction, Endpoint, Kind, Record
from decoders.wire.closing import Ends
from decoders.wire.columnar.segments import SOCKET_WORDS, sockets_of
from decoders.wire.connection import ClientSyn
from decoders.wire.recorder import Run, connection_id
from decoders.wire.segment import SocketAddress

_CLOSINGS = list(Closing)
_DIRECTIONS = list(Direction)
_SERVERS = 1_000
SYN = Struct(f"={4 + SOCKET_WORDS}q")
"""The SYN's sequence number; the number, capture time and position of the record OPENED; the socket words."""


def ends_of(numbers: int, closed: int) -> Ends:
    """Return where the directions of a connection ended, of which both had begun.

    `numbers` has the 32-bit sequence number of TO_BROKER in its lower half and that of TO_CLIENT above it;
    `closed` has a bit for each direction, the lowest one for TO_BROKER.
    """
    to_broker, to_client = numbers & 0xFFFFFFFF, numbers >> 32 & 0xFFFFFFFF
    return Ends((to_broker, to_client), (bool(closed & 1), bool(closed & 2)))


class LazyConnection:
    """A connection that compiled code has opened: what its SYN said, and its record OPENED on demand.

    The connection has this object as long as it is open, and batches share it, so the record is made once.
    It is small, and keeps its SYN as bytes, because more objects would cost more garbage collection.
    `key` is twice the socket pair, plus 1 if the lower socket is the client. `closed_at`, and `numbers` and
    `closed` as `ends_of` takes them, are set when it is closed.
    """

    __slots__ = ("_record", "_run", "_syn", "closed", "closed_at", "key", "numbers")

    def __init__(self, run: Run, key: int, syn: bytes) -> None:
        """`syn` has the numbers of `SYN`."""
        self.key = key
        self.closed_at = 0
        self.numbers = self.closed = 0
        self._run = run
        self._syn = syn
        self._record: Record | None = None

    @property
    def pair(self) -> int:
        """The number of its socket pair."""
        return self.key >> 1

    @property
    def sockets(self) -> tuple[SocketAddress, SocketAddress]:
        """Client and server."""
        lower, upper = sockets_of(SYN.unpack(self._syn)[4:])
        return (lower, upper) if self.key & 1 else (upper, lower)

    @property
    def client_syn(self) -> ClientSyn:
        """The SYN as the scalar tracker knows it."""
        return ClientSyn(SYN.unpack(self._syn)[0], 0)

    @property
    def ends(self) -> Ends:
        """Where its directions ended."""
        return ends_of(self.numbers, self.closed)

    @property
    def record(self) -> Record:
        """The record OPENED."""
        if self._record is None:
            self._record = self._made()
        return self._record

    def _made(self) -> Record:
        run, (client, server) = self._run, self.sockets
        shown, broker = run.shown_client(client).endpoint, _endpoint(server)
        _, sequence, captured_at, position, *_ = SYN.unpack(self._syn)
        return Record(
            Kind.OPENED,
            connection_id(run.cluster, shown, broker, run.run, sequence),
            run.run,
            sequence,
            captured_at,
            shown,
            broker,
            run.cluster,
            run.feeder,
            position=position,
        )


@functools.lru_cache(maxsize=_SERVERS)
def _endpoint(server: SocketAddress) -> Endpoint:
    """Format a server's address: many connections have the same."""
    return server.endpoint


class OpenedRecords(Sequence[Record]):
    """The record OPENED of each flow's connection. Entries of unused flows are undefined."""

    def __init__(self, entries: Sequence[Record | LazyConnection]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, flow: int) -> Record: ...
    @overload
    def __getitem__(self, flow: slice) -> Sequence[Record]: ...
    def __getitem__(self, flow: int | slice) -> Record | Sequence[Record]:
        if isinstance(flow, slice):
            return OpenedRecords(self._entries[flow])
        entry = self._entries[flow]
        return entry.record if isinstance(entry, LazyConnection) else entry


class ChangeColumns(NamedTuple):
    """Openings and closings, one row each.

    Columns mean what the fields of `Record` mean; `connections` are numbers of connections in a batch. A row
    whose `closings` is NONE is an opening, and has no direction. All other fields of their records have their
    defaults.
    """

    connections: NDArray[np.int32]
    sequences: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    positions: NDArray[np.int64]
    closings: NDArray[np.uint8]
    directions: NDArray[np.uint8]

    @classmethod
    def joined(cls, parts: Sequence[ChangeColumns]) -> ChangeColumns:
        """Concatenate columns."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def of(self, rows: NDArray[np.int64]) -> ChangeColumns:
        """Return these rows."""
        return ChangeColumns(*untyped(column[rows] for column in self))


def untyped(columns: Iterable[NDArray[Any]]) -> Iterable[NDArray[Any]]:
    """Return the columns unchanged, for a NamedTuple whose fields have different dtypes."""
    return columns


NO_CHANGES = ChangeColumns(
    np.empty(0, np.int32),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.uint8),
    np.empty(0, np.uint8),
)


class Events(Sequence[Record]):
    """Records in their order: openings and closings as columns, all others as records.

    `order` (int64) numbers the records in their order: `changes` first and then `others`.
    """

    def __init__(self, changes: ChangeColumns, others: list[Record], openings: Sequence[Record]) -> None:
        """`openings` holds a record of each connection number of `changes`."""
        self.changes = changes
        self.others = others
        self.order = _order(changes, others)
        self._openings = openings

    @classmethod
    def of(cls, records: Iterable[Record]) -> Events:
        """Make events of records, in their order."""
        return cls(NO_CHANGES, list(records), ())

    def __len__(self) -> int:
        return len(self.changes.sequences) + len(self.others)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Events: ...
    def __getitem__(self, place: int | slice) -> Record | Events:
        if isinstance(place, slice):
            return self.chosen(np.arange(len(self))[place])
        return self._record(int(self.order[place]))

    def __iter__(self) -> Iterator[Record]:
        return map(self._record, self.order.tolist())

    @property
    def sequences(self) -> NDArray[np.int64]:
        """The numbers of the records."""
        numbers: NDArray[np.int64] = _sequences(self.changes, self.others)[self.order]
        return numbers

    @property
    def by_place(self) -> dict[int, Record]:
        """Those of `others` by their places in the order."""
        numbers = self.order - len(self.changes.sequences)
        (places,) = np.nonzero(numbers >= 0)
        return {
            place: self.others[number]
            for place, number in zip(places.tolist(), numbers[places].tolist(), strict=True)
        }

    def with_others(self, change: Callable[[Record], Record]) -> Events:
        """Return the same events with `change` applied to all that are not in `changes`."""
        return Events(self.changes, [change(record) for record in self.others], self._openings)

    def followed_by(self, records: list[Record]) -> Events:
        """Return these events and others that follow all of the batch."""
        return Events(self.changes, self.others + records, self._openings)

    def chosen(self, places: NDArray[np.int64]) -> Events:
        """Return the records at these places, which are in rising order."""
        numbers, count = self.order[places], len(self.changes.sequences)
        others = [self.others[number - count] for number in numbers[numbers >= count].tolist()]
        return Events(self.changes.of(numbers[numbers < count]), others, self._openings)

    def _record(self, number: int) -> Record:
        count = len(self.changes.sequences)
        return self.others[number - count] if number >= count else self.change(number)

    def change(self, row: int) -> Record:
        """Return the record of a row of `changes`."""
        changes = self.changes
        opening = self._openings[changes.connections.item(row)]
        closing = changes.closings.item(row)
        return Record(
            Kind.CLOSED if closing else Kind.OPENED,
            opening.connection,
            opening.run,
            changes.sequences.item(row),
            changes.captured_at.item(row),
            opening.client,
            opening.server,
            opening.cluster,
            opening.feeder,
            _DIRECTIONS[changes.directions.item(row)],
            closing=_CLOSINGS[closing],
            position=changes.positions.item(row),
        )


def _order(changes: ChangeColumns, others: list[Record]) -> NDArray[np.int64]:
    """Return the order of the records by sequence; without changes they are in order."""
    if not len(changes.sequences):
        return np.arange(len(others))
    order: NDArray[np.int64] = np.argsort(_sequences(changes, others), kind="stable")
    return order


def _sequences(changes: ChangeColumns, others: list[Record]) -> NDArray[np.int64]:
    return np.concatenate((changes.sequences, np.array([each.sequence for each in others], np.int64)))
