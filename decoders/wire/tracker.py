"""All connections of a source: packets in, records out.

A connection leaves the tracker for one of these reasons, and a record CLOSED names it, except at the source's
end:

    closing   when
    --------  ------------------------------------------------------------------------------------------------
    FIN, RST  its own packets end it. It is then remembered for a while, so that its last segments do not open
              a new connection
    REPLACED  the broker accepts a SYN for another connection between the same sockets
    IDLE      it was silent for KEPT_FOR of capture time
    EVICTED   another one opens while `max_connections` are open, or half as many half-open: those that have
              come least far are closed; or all together hold more than `max_held` bytes, and it holds most.
              Later segments join the connection mid-stream

`decoders.wire.eviction` says how many are closed at once.

The bytes that one connection holds are bounded by the largest frame, the largest hole and the requests in
flight.

A connection that waits for packets that are captured late gives up when any later packet, its own or another
connection's, shows that MAX_WAIT has passed. So does one that waits for its TLS secrets, after MAX_KEY_WAIT.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from typing import Protocol

from decoders.frame.record import NO_TIME, Closing, Record
from decoders.retention import KEPT_FOR
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.admission import Admission, ClosedConnections, ConnectionKey
from decoders.wire.closing import Ends
from decoders.wire.connection import ClientSyn, Connection
from decoders.wire.decryption import MAX_KEY_WAIT
from decoders.wire.eviction import (
    HEAVY,
    MAX_CONNECTIONS,
    closed_at_once,
    max_half_open,
    may_be_idle,
)
from decoders.wire.frame_detector import ExcludesClient, FrameDetector
from decoders.wire.framing import MAX_FRAME
from decoders.wire.ledger import Ledger
from decoders.wire.recorder import Run, ShownClient, as_it_is
from decoders.wire.segment import Packet, Segment, Skipped, SocketAddress, read_segment
from decoders.wire.waiting import MAX_WAIT, WaitingConnections

MAX_HELD = 128 * 1024 * 1024
"""Bytes that buffered segments, incomplete frames and requests in flight may hold.

Incomplete frames take up to four and a half times as much memory, since batches copy them.
"""


class Closings(Protocol):
    """Closes connections without a packet of their own, and yields the records of those that it closes."""

    def make_room(self, segment: Segment) -> Iterable[Record]:
        """Evict connections if there is no room for the one that a segment opens."""

    def free(self, segment: Segment, latest: Connection | None) -> Iterable[Record]:
        """Evict connections because all hold too much. `latest` is the one of the segment, if it has one."""

    def close_idle(self, segment: Segment) -> Iterable[Record]:
        """Close connections that were silent until a segment is captured."""


OnEnd = Callable[[SocketAddress, SocketAddress, Ledger], None]
"""Called with the client, the server and the ledger of a connection that leaves the tracker."""


class Tracker:
    """Follows every connection to the watched ports.

    `held` is the memory in bytes, roughly, that all connections hold; `max_held` bounds it. `closings` is the
    tracker itself, unless another one is set. `port_ledgers` count the bytes of the connections to each
    watched port. `closed` has the connections that are remembered, `run` the fields that all records share.
    `evicted` counts the connections that were evicted: by how far they had come, or as HEAVY.
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        ports: Collection[int],
        run: int,
        cluster: str = "",
        feeder: str = "",
        max_connections: int = MAX_CONNECTIONS,
        max_held: int = MAX_HELD,
        max_frame: int = MAX_FRAME,
        next_sequence: Callable[[], int] | None = None,
        on_end: OnEnd | None = None,
        excludes_client: ExcludesClient | None = None,
        key_log: KeyLog | None = None,
        shown_client: ShownClient = as_it_is,
        before_remembering: Callable[[], None] | None = None,
        keeps_principals: bool = False,
    ) -> None:
        """Watch `ports`, or every port if there are none. All records contain run, cluster and feeder.

        `max_frame` is the largest frame in bytes that the brokers accept (`socket.request.max.bytes`).
        `next_sequence` returns the next record's number, if other records share the sequence. `on_end` is
        called when a connection is closed, and at the end of the source for open ones. Connections are
        excluded if `excludes_client` returns True for the client ID of their first request. TLS is decrypted
        with the secrets of `key_log`, which may grow meanwhile; without one it is opaque. Records show the
        address of a client as `shown_client` returns it, and the name under which it logs in if
        `keeps_principals`. `before_remembering` is called before `closed` is used.
        """
        self.ledger = Ledger()
        self.port_ledgers = {port: Ledger(within=self.ledger) for port in sorted(ports)}
        self._max_connections = max_connections
        self._max_half_open = max_half_open(max_connections)
        self._max_held = max_held
        self.held = 0
        self._on_end = on_end
        self.closings: Closings = self
        self._looked_at = NO_TIME
        self._half_open = set[ConnectionKey]()
        self.evicted = Counter[str]()
        self.closed = ClosedConnections(max_connections, before_remembering)
        next_sequence = next_sequence or itertools.count(1).__next__
        self.run = Run(
            run, cluster, feeder, next_sequence, names_ports=bool(ports), shown_client=shown_client
        )
        detector = FrameDetector(schemas, max_frame, excludes_client, keeps_principals=keeps_principals)
        self._admission = Admission(
            self.run,
            detector,
            self.closed,
            ledger=self.ledger,
            port_ledgers=self.port_ledgers,
            key_log=key_log,
        )
        self._key_log = key_log
        self._key_log_version = 0
        self._keyless = WaitingConnections[Connection](MAX_KEY_WAIT)
        """Connections that wait for their secrets."""
        self._open: OrderedDict[ConnectionKey, Connection] = OrderedDict()
        """In the order of their latest segments."""
        self._waiting = WaitingConnections[Connection](MAX_WAIT)
        """Connections that wait for late packets."""

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections, the one that was silent longest first."""
        return self._open.values()

    def feed(self, packet: Packet) -> list[Record]:
        """Process the next packet, and return the records that it completes."""
        segment = read_segment(packet)
        if isinstance(segment, Skipped):
            self.ledger.packets[segment.reason] += 1
            return []
        return list(self.process(segment))

    def process(self, segment: Segment, known: Connection | None = None) -> Iterator[Record]:
        """Process the next packet's segment, and yield the records that it completes.

        `known` is its open connection, if that was looked up.
        """
        self.ledger.packets["tcp"] += 1
        yield from self._records(segment, known)

    def finish(self) -> list[Record]:
        """Return the records of all held bytes at the source's end.

        A connection gets a record CLOSED only if its end was captured.
        """
        records: list[Record] = []
        for connection in self._open.values():
            records += connection.give_up_all()
            if not connection.is_closed:
                records += connection.flush()
            self._notify_end(connection)
        self._open.clear()
        self._half_open.clear()
        self._waiting.clear()
        self._keyless.clear()
        self.held = 0
        return records

    def try_keys(self) -> list[Record]:
        """Return the records of connections whose secrets have become known since the latest packet."""
        if self._key_log is None or self._key_log.version == self._key_log_version:
            return []
        self._key_log_version = self._key_log.version
        records: list[Record] = []
        for connection in self._keyless:
            records += connection.try_keys()
            self._note_held(connection)
        return records

    def _records(self, segment: Segment, known: Connection | None) -> Iterator[Record]:
        yield from self.try_keys()
        yield from self.closings.close_idle(segment)
        yield from self._give_up_overdue(segment)
        connection = self.find(segment) if known is None or known.is_closed else known
        if connection is not None and connection.is_replaced_by(segment):
            yield from connection.give_up_all()
            self._note(connection, segment)
            if not connection.is_closed:
                yield from self.close(connection, Closing.REPLACED, segment)
            if (syn := connection.offered_syn(segment)) is not None:
                yield from self._follow(syn, None)
            connection = self.find(segment)
        if connection is not None and connection.is_offered(segment):
            connection.note_offered(segment)
            self.touch(connection)
            return
        yield from self._follow(segment, connection)

    def _follow(self, segment: Segment, connection: Connection | None) -> Iterator[Record]:
        """Process a segment of an open connection, or one that may begin a connection."""
        if connection is None:
            connection = self._admission.admit(segment)
            if connection is None:
                return
            yield from self.closings.make_room(segment)
            yield connection.open(segment)
        self._open[connection.client, connection.server] = connection
        self.touch(connection)
        yield from connection.process(segment)
        self._note_standing(connection)
        self._note(connection, segment)
        if self.held > self._max_held:
            yield from self.closings.free(segment, connection)

    def adopt(
        self, client: SocketAddress, server: SocketAddress, client_syn: ClientSyn, opened: Record
    ) -> Connection:
        """Follow a connection that another tracker opened with a SYN. Its state must then be restored."""
        connection = self._admission.connection(client, server)
        connection.continue_from(opened, client_syn)
        self._open[client, server] = connection
        return connection

    def end(self, connection: Connection, captured_at: int, ends: Ends) -> None:
        """Close a connection whose end was captured, after another tracker processed its packets."""
        connection.is_closed = True
        self._remember(connection, captured_at, ends)

    @property
    def notifies_ends(self) -> bool:
        """Whether `on_end` is set."""
        return self._on_end is not None

    def close(self, connection: Connection, closing: Closing, segment: Segment) -> Iterator[Record]:
        """Close a connection for another reason than its own segments, when `segment` is captured."""
        yield from connection.close(closing, segment.captured_at, segment.position)
        self._count_held(connection)
        self._forget(connection)
        self._waiting.note(connection, None)
        self._keyless.note(connection, None)
        self._notify_end(connection)

    def drop(self, connection: Connection) -> None:
        """Note that a connection that neither holds nor awaits anything was closed by another tracker."""
        connection.is_closed = True
        self._forget(connection)

    def _note_standing(self, connection: Connection) -> None:
        if connection.standing.is_half_open:
            self._half_open.add((connection.client, connection.server))
        elif self._half_open:
            self._half_open.discard((connection.client, connection.server))

    def _forget(self, connection: Connection) -> None:
        key = connection.client, connection.server
        del self._open[key]
        self._half_open.discard(key)

    def _note(self, connection: Connection, segment: Segment) -> None:
        """Note what a connection holds, whether it waits, and whether it was closed when `segment` came."""
        self._note_held(connection)
        self._waiting.note(connection, connection.waits_since)
        if connection.is_closed:
            self._remember(connection, segment.captured_at, connection.ends)

    def _note_held(self, connection: Connection) -> None:
        """Note what a connection holds, and whether it waits for its secrets."""
        self._count_held(connection)
        self._keyless.note(connection, connection.awaits_key_since)

    @property
    def waits_until(self) -> int | None:
        """The capture time after which a packet makes a connection give up; None if none waits."""
        late, keyless = self._waiting.until, self._keyless.until
        if late is None or keyless is None:
            return keyless if late is None else late
        return min(late, keyless)

    def _give_up_overdue(self, segment: Segment) -> Iterator[Record]:
        until = self.waits_until
        if until is None or segment.captured_at <= until:
            return
        while (connection := next(self._waiting.overdue(segment.captured_at), None)) is not None:
            yield from connection.give_up()
            self._note(connection, segment)
            if self.held > self._max_held:
                yield from self.closings.free(segment, None)
        while (connection := next(self._keyless.overdue(segment.captured_at), None)) is not None:
            yield from connection.give_up_keys()
            self._note_held(connection)

    def touch(self, connection: Connection) -> None:
        """Make a connection the one that was seen last."""
        self._open.move_to_end((connection.client, connection.server))

    def find(self, segment: Segment) -> Connection | None:
        """Return the open connection that a segment belongs to."""
        source, destination = segment.source, segment.destination
        return self._open.get((source, destination)) or self._open.get((destination, source))

    def _remember(self, connection: Connection, closed_at: int, ends: Ends) -> None:
        self._forget(connection)
        self._notify_end(connection)
        self.closed.add(connection, closed_at, ends)

    def _notify_end(self, connection: Connection) -> None:
        if self._on_end:
            self._on_end(connection.client, connection.server, connection.ledger)

    def close_idle(self, segment: Segment) -> Iterator[Record]:
        """Close the connections that were silent for KEPT_FOR, the one that was silent longest first."""
        if not may_be_idle(segment.captured_at, self._looked_at):
            return
        self._looked_at = segment.captured_at
        for _ in range(closed_at_once(self._max_connections)):
            oldest = next(iter(self._open.values()), None)
            if oldest is None or segment.captured_at - oldest.last_seen_at <= KEPT_FOR:
                return
            yield from self.close(oldest, Closing.IDLE, segment)

    def _count_held(self, connection: Connection) -> None:
        held = connection.held
        self.held += held - connection.counted_held
        connection.counted_held = held

    def free(self, segment: Segment, latest: Connection | None) -> Iterator[Record]:
        """Close the connections that hold most, until half of `max_held` is free."""
        by_weight = sorted(self._open.values(), key=lambda each: each.counted_held, reverse=True)
        for connection in by_weight[: closed_at_once(self._max_connections)]:
            if self.held <= self._max_held // 2:
                return
            self.evicted[HEAVY] += 1
            yield from self.close(connection, Closing.EVICTED, segment)

    def make_room(self, segment: Segment) -> Iterator[Record]:
        """Close the connections that have come least far, if there is no room for another one."""
        if len(self._open) < self._max_connections and len(self._half_open) < self._max_half_open:
            return
        by_standing = sorted(self._open.values(), key=attrgetter("standing"))
        for connection in by_standing[: closed_at_once(self._max_connections)]:
            self.evicted[connection.standing.shown] += 1
            yield from self.close(connection, Closing.EVICTED, segment)
