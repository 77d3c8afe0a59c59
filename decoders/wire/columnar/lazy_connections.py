"""Connections that compiled code opens and closes: their records, and a `Connection` if one is needed.

Most connections of clients that come and go are ordinary from the SYN to the end, and never need one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.wire.columnar.flow_table import FlowTable
from decoders.wire.columnar.offload import settle
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SOCKET_WORDS, SegmentBatch
from decoders.wire.connection import Connection, Opening
from decoders.wire.recorder import connection_id
from decoders.wire.segment import Segment, SocketAddress
from decoders.wire.tracker import ConnectionKey, Tracker

_DIRECTIONS = (Direction.TO_BROKER, Direction.TO_CLIENT)
_WORD = 8


class _Opened(NamedTuple):
    """A connection that compiled code has opened: its sockets, and its SYN."""

    key: ConnectionKey
    opening: Opening


class _Change(NamedTuple):
    """A row of dtype CHANGE, with the fields of its packet."""

    row: int
    pair: int
    flow: int
    sequence: int
    initial_sequence: int
    closing: int
    closer: int
    captured_at: int
    position: int


class LazyConnections:
    """The open connections that no packet out of the ordinary has met since their SYN.

    The scalar tracker does not know them before they are adopted.
    """

    def __init__(self, tracker: Tracker, flow_table: FlowTable) -> None:
        self._tracker = tracker
        self._flow_table = flow_table
        self._opened: dict[int, _Opened] = {}
        self._flow_of_key: dict[ConnectionKey, int] = {}

    def adopt(self, segment: Segment) -> None:
        """Make the connection that a segment belongs to known to the scalar tracker."""
        forth, back = (segment.source, segment.destination), (segment.destination, segment.source)
        flow = self._flow_of_key.get(forth, self._flow_of_key.get(back))
        if flow is not None:
            self._adopt(flow)

    def adopt_all(self) -> None:
        """Make all connections known to the scalar tracker."""
        for flow in list(self._opened):
            self._adopt(flow)

    def _adopt(self, flow: int) -> Connection:
        opened = self._opened.pop(flow)
        del self._flow_of_key[opened.key]
        opening = self._flow_table.opening(flow)
        connection = self._tracker.adopt(*opened.key, opened.opening, opening)
        self._flow_table.adopt(flow, connection)
        return connection

    def records_of(
        self, changes: NDArray[np.void], packets: PacketBatch, segments: SegmentBatch
    ) -> Iterator[Record]:
        """Yield the records of connections that compiled code has opened and closed, in their order."""
        rows = changes["row"]
        sockets = segments.sockets[rows].astype(">i8").tobytes()
        columns = [changes[name].tolist() for name in changes.dtype.names or ()]
        columns += [column[rows].tolist() for column in (packets.captured_at, packets.positions)]
        forward = segments.forward[rows].tolist()
        size = _WORD * SOCKET_WORDS
        released = []
        for number, change in enumerate(map(_Change, *columns)):
            if change.closing:
                released.append(change.flow)
                yield self._close(change)
            else:
                lower, upper = _addresses(sockets[number * size : (number + 1) * size])
                yield self._open(change, (lower, upper) if forward[number] else (upper, lower))
        self._flow_table.flows.release_all(released)

    def _open(self, change: _Change, key: ConnectionKey) -> Record:
        run, (client, server) = self._tracker.run, key
        shown, broker = run.shown_client(client).endpoint, server.endpoint
        record = Record(
            Kind.OPENED,
            connection_id(run.cluster, shown, broker, run.run, change.sequence),
            run.run,
            change.sequence,
            change.captured_at,
            shown,
            broker,
            run.cluster,
            run.feeder,
            position=change.position,
        )
        self._opened[change.flow] = _Opened(key, Opening(change.initial_sequence, 0))
        self._flow_of_key[key] = change.flow
        self._flow_table.note_opened(change.flow, change.pair, record)
        return record

    def _close(self, change: _Change) -> Record:
        opening, opened = self._flow_table.opening(change.flow), self._opened.get(change.flow)
        if opened is not None and not self._tracker.notifies_ends:
            del self._opened[change.flow], self._flow_of_key[opened.key]
            self._tracker.remember(*opened.key, opened.opening, change.captured_at)
        else:
            connection = self._connection(change.flow)
            settle(self._flow_table.flows, change.flow, connection)
            self._tracker.end(connection, change.captured_at)
        self._flow_table.note_closed(change.flow, opening.connection)
        return Record(
            Kind.CLOSED,
            opening.connection,
            opening.run,
            change.sequence,
            change.captured_at,
            opening.client,
            opening.server,
            opening.cluster,
            opening.feeder,
            _DIRECTIONS[change.closer],
            closing=Closing(change.closing),
            position=change.position,
        )

    def _connection(self, flow: int) -> Connection:
        return self._adopt(flow) if flow in self._opened else self._flow_table.connection(flow)


def _addresses(words: bytes) -> tuple[SocketAddress, SocketAddress]:
    """Return the lower and the upper socket of the words that `SegmentBatch` has for them."""
    is_version_4 = words[-5] == 4
    size = 4 if is_version_4 else 2 * _WORD
    lower, upper = words[2 * _WORD - size : 2 * _WORD], words[4 * _WORD - size : 4 * _WORD]
    return (
        SocketAddress(lower, int.from_bytes(words[-4:-2])),
        SocketAddress(upper, int.from_bytes(words[-2:])),
    )
