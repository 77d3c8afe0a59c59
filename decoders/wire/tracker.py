"""All connections of a source: packets in, records out.

The server is the side whose port is watched; without ports it is the side that a SYN went to or, of a
connection that was joined mid-stream, the side that is sent something which decodes as a request.

Memory is bounded by the number of connections followed: beyond it the one that was silent longest is
closed as EVICTED. It is bounded by what waits in all of them as well: beyond `MAX_HELD` those that hold
most are closed as EVICTED, until half of it is free; what follows on them is joined mid-stream. What one
connection holds is bounded by a longest frame, a longest hole and the answers owed.

A connection that was silent for `IDLE_AFTER` on the capture clock is closed as IDLE. A closed connection
is remembered for a while, so that its last segments open no new one.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from decoders.codec.acknowledgement import owes_answer as _owes_answer
from decoders.frame.record import Closing, Record
from decoders.schema.registry import Schemas
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.connection import Connection
from decoders.wire.evidence import Evidence, OwesAnswer
from decoders.wire.ledger import Ledger, Reason
from decoders.wire.packet import Packet
from decoders.wire.recorder import Run
from decoders.wire.segment import Segment, Skipped, SocketAddress, TcpFlag, read_segment

MAX_CONNECTIONS = 100_000
MAX_HELD = 512 * 1024 * 1024
"""Bytes, roughly, that may wait for other segments, the rest of frames or answers."""
IDLE_AFTER = 24 * 3600 * 1_000_000_000
"""Nanoseconds. A broker closes idle connections after 10 minutes (`connections.max.idle.ms`)."""
LINGER = 60 * 1_000_000_000
"""Nanoseconds for which a closed connection is remembered: as long as Linux keeps TIME_WAIT."""

Ended = Callable[[SocketAddress, SocketAddress, Ledger], None]
"""Is told of a client, its server and their connection's ledger."""
_Key = tuple[SocketAddress, SocketAddress]
"""Client and server."""


class _Memory(NamedTuple):
    """What is remembered of a closed connection."""

    initial_sequence: int | None
    closed_at: int


class Tracker:
    """Follows every connection to the watched ports.

    `held` is how much memory waits in all connections, in bytes, roughly; `max_held` bounds it.
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        ports: Collection[int],
        run: int,
        cluster: str = "",
        feeder: str = "",
        owes_answer: OwesAnswer = _owes_answer,
        max_connections: int = MAX_CONNECTIONS,
        max_held: int = MAX_HELD,
        max_frame: int = MAX_FRAME,
        next_sequence: Callable[[], int] | None = None,
        ended: Ended | None = None,
    ) -> None:
        """Watch `ports`, or every port when there are none. Records carry run, cluster and feeder.

        `max_frame` is the longest frame in bytes that the brokers take (`socket.request.max.bytes`).
        `next_sequence` numbers the records, where others than this tracker's are numbered with them. `ended`
        is told of each connection that nothing more is heard of, with its ledger.
        """
        self.ledger = Ledger()
        self._ports = frozenset(ports)
        self._max_connections = max_connections
        self._max_held = max_held
        self.held = 0
        self._ended = ended
        self._run = Run(run, cluster, feeder, next_sequence or itertools.count(1).__next__)
        self._evidence = Evidence(schemas, owes_answer, max_frame)
        self._open: OrderedDict[_Key, Connection] = OrderedDict()
        """In the order of their latest segments."""
        self._closed: OrderedDict[_Key, _Memory] = OrderedDict()

    @property
    def connections(self) -> Collection[Connection]:
        """The connections that are open, the one that was silent longest first."""
        return self._open.values()

    def feed(self, packet: Packet) -> list[Record]:
        """Take the next packet, and give the records that are complete with it."""
        segment = read_segment(packet)
        if isinstance(segment, Skipped):
            self.ledger.packets[segment.reason] += 1
            return []
        return self.hear(segment)

    def hear(self, segment: Segment) -> list[Record]:
        """Take the next packet's segment, and give the records that are complete with it."""
        self.ledger.packets["tcp"] += 1
        return list(self._follow(segment))

    def finish(self) -> list[Record]:
        """Give what is still held at the end of the source. Connections that are open stay unclosed."""
        records = [record for connection in self._open.values() for record in connection.flush()]
        for connection in self._open.values():
            self._tell_end(connection)
        self._open.clear()
        self.held = 0
        return records

    def _follow(self, segment: Segment) -> Iterator[Record]:
        yield from self._close_idle(segment)
        connection = self.find(segment)
        if connection is not None and connection.is_replaced_by(segment):
            yield from self._close(connection, Closing.REPLACED, segment)
            connection = None
        if connection is None:
            connection = self._admit(segment)
            if connection is None:
                return
            yield from self._make_room(segment)
            yield connection.open(segment)
        self._open[connection.client, connection.server] = connection
        self.touch(connection)
        yield from connection.hear(segment)
        self._account(connection)
        if connection.is_closed:
            self._remember(connection, segment)
        if self.held > self._max_held:
            yield from self._relieve(segment)

    def touch(self, connection: Connection) -> None:
        """Make a connection the one that was heard last."""
        self._open.move_to_end((connection.client, connection.server))

    def find(self, segment: Segment) -> Connection | None:
        """Give the open connection that a segment belongs to."""
        forth, back = (segment.source, segment.destination), (segment.destination, segment.source)
        return self._open.get(forth) or self._open.get(back)

    def _admit(self, segment: Segment) -> Connection | None:
        """Make a connection of a segment that belongs to none, where it shows that there is one."""
        key = self._orient(segment)
        if isinstance(key, Reason):
            self._pass_over(key, segment)
            return None
        if _shows_connection(segment):
            connection = Connection(self._run, self._evidence, self.ledger, *key)
            if not self._is_straggler(connection, segment):
                return connection
        self._pass_over(Reason.AFTER_CLOSE, segment)
        return None

    def _pass_over(self, reason: Reason, segment: Segment) -> None:
        self.ledger.capture(len(segment.payload))
        self.ledger.skip(reason, len(segment.payload))

    def _orient(self, segment: Segment) -> _Key | Reason:
        forth, back = (segment.source, segment.destination), (segment.destination, segment.source)
        to_watched, from_watched = (address.port in self._ports for address in back)
        if to_watched != from_watched:
            return forth if to_watched else back
        if self._ports and not to_watched:
            return Reason.OTHER_PORT
        if segment.flags & TcpFlag.SYN:
            return back if segment.flags & TcpFlag.ACK else forth
        return forth if self._evidence.resumes_requests(segment.payload) else Reason.UNORIENTED

    def _is_straggler(self, connection: Connection, segment: Segment) -> bool:
        """Whether a segment belongs to a connection between the same sockets that is closed."""
        memory = self._closed.get((connection.client, connection.server))
        if memory is None:
            return False
        if segment.flags & TcpFlag.SYN:
            return connection.initial_sequence_in(segment) == memory.initial_sequence
        return segment.captured_at - memory.closed_at <= LINGER

    def _remember(self, connection: Connection, segment: Segment) -> None:
        key = connection.client, connection.server
        del self._open[key]
        self._tell_end(connection)
        self._closed[key] = _Memory(connection.initial_sequence, segment.captured_at)
        self._closed.move_to_end(key)
        if len(self._closed) > self._max_connections:
            self._closed.popitem(last=False)

    def _close(self, connection: Connection, closing: Closing, segment: Segment) -> Iterator[Record]:
        """Close a connection for another reason than its own segments, when `segment` came."""
        yield from connection.close(closing, segment.captured_at, segment.position)
        self._account(connection)
        del self._open[connection.client, connection.server]
        self._tell_end(connection)

    def _tell_end(self, connection: Connection) -> None:
        if self._ended:
            self._ended(connection.client, connection.server, connection.ledger)

    def _close_idle(self, segment: Segment) -> Iterator[Record]:
        while self._open:
            oldest = next(iter(self._open.values()))
            if segment.captured_at - oldest.last_seen_at <= IDLE_AFTER:
                return
            yield from self._close(oldest, Closing.IDLE, segment)

    def _account(self, connection: Connection) -> None:
        held = connection.held
        self.held += held - connection.accounted
        connection.accounted = held

    def _relieve(self, segment: Segment) -> Iterator[Record]:
        """Close those that hold most, until half of what may be held is free."""
        for connection in sorted(self._open.values(), key=lambda each: each.accounted, reverse=True):
            if self.held <= self._max_held // 2:
                return
            yield from self._close(connection, Closing.EVICTED, segment)

    def _make_room(self, segment: Segment) -> Iterator[Record]:
        while len(self._open) >= self._max_connections:
            yield from self._close(next(iter(self._open.values())), Closing.EVICTED, segment)


def _shows_connection(segment: Segment) -> bool:
    """Whether a segment opens a connection, or carries bytes of one that was joined mid-stream."""
    if segment.flags & TcpFlag.RST:
        return False
    return bool(segment.flags & TcpFlag.SYN or segment.payload or segment.missing)
