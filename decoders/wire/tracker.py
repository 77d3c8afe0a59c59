"""All connections of a source: packets in, records out.

Memory is bounded twice. When more than `max_connections` are open, the one that was silent longest is closed
as EVICTED. When all together hold more than `max_held` bytes, those that hold most are closed as EVICTED
until half of it is free; their later segments join them mid-stream. The bytes that one connection holds are
bounded by the largest frame, the largest hole and the requests in flight.

A connection that waits for packets that are captured late is asked to give up when a later packet shows that
`MAX_WAIT` has passed, whichever connection that packet belongs to. So is one that waits for its TLS secrets,
after `MAX_KEY_WAIT`.

A connection that was silent for `KEPT_FOR` of capture time is closed as IDLE. A closed connection is
remembered for a while, so that its last segments do not open a new one.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator

from decoders.codec.acknowledgement import expects_response as _expects_response
from decoders.frame.record import Closing, Record
from decoders.retention import KEPT_FOR
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.admission import Admission
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.closed_connections import ClosedConnections, ConnectionKey
from decoders.wire.connection import Connection
from decoders.wire.decryption import MAX_KEY_WAIT
from decoders.wire.frame_detector import ExcludesClient, ExpectsResponse, FrameDetector
from decoders.wire.ledger import Ledger
from decoders.wire.opening import Opening
from decoders.wire.packet import Packet
from decoders.wire.patience import MAX_WAIT
from decoders.wire.recorder import Run, ShownClient, as_it_is
from decoders.wire.segment import Segment, Skipped, SocketAddress, read_segment
from decoders.wire.waiting import WaitingConnections

MAX_CONNECTIONS = 50_000
"""Connections that are followed. Each takes some 8 KiB beside what it holds."""
MAX_HELD = 128 * 1024 * 1024
"""Bytes that buffered segments, incomplete frames and requests in flight may hold.

Incomplete frames take up to four times as much memory where they are copied from batch to batch.
"""
OnEnd = Callable[[SocketAddress, SocketAddress, Ledger], None]
"""Called with the client, the server and the ledger of a connection that is no longer followed."""


class Tracker:
    """Follows every connection to the watched ports.

    `held` is the memory that all connections hold, in bytes, roughly; `max_held` bounds it. `port_ledgers`
    count the bytes of the connections to each watched port. `closed` has those that are not followed any
    more.
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        ports: Collection[int],
        run: int,
        cluster: str = "",
        feeder: str = "",
        expects_response: ExpectsResponse = _expects_response,
        max_connections: int = MAX_CONNECTIONS,
        max_held: int = MAX_HELD,
        max_frame: int = MAX_FRAME,
        next_sequence: Callable[[], int] | None = None,
        on_end: OnEnd | None = None,
        excludes_client: ExcludesClient | None = None,
        key_log: KeyLog | None = None,
        shown_client: ShownClient = as_it_is,
        before_eviction: Callable[[], None] | None = None,
        before_remembering: Callable[[], None] | None = None,
    ) -> None:
        """Watch `ports`, or every port if there are none. All records contain run, cluster and feeder.

        `max_frame` is the largest frame in bytes that the brokers accept (`socket.request.max.bytes`).
        `next_sequence` returns the next record's number, if other records share the sequence. `on_end` is
        called when a connection is closed, and at the end of the source for those still open. Connections
        whose first request has a client ID for which `excludes_client` returns True are left alone. TLS
        is decrypted with the secrets of `key_log`, which may grow meanwhile; without one it is opaque.
        Records show the address of a client as `shown_client` returns it. `before_eviction` is called before
        connections are closed because all hold too much, `before_remembering` before the closed connections
        are looked at or one is added to them.
        """
        self.ledger = Ledger()
        self.port_ledgers = {port: Ledger(within=self.ledger) for port in sorted(ports)}
        self._max_connections = max_connections
        self._max_held = max_held
        self.held = 0
        self._on_end = on_end
        self._before_eviction = before_eviction
        self.closed = ClosedConnections(max_connections, before_remembering)
        next_sequence = next_sequence or itertools.count(1).__next__
        self._run = Run(
            run, cluster, feeder, next_sequence, names_ports=bool(ports), shown_client=shown_client
        )
        detector = FrameDetector(schemas, expects_response, max_frame, excludes_client)
        self._admission = Admission(
            self._run,
            detector,
            self.closed,
            ledger=self.ledger,
            port_ledgers=self.port_ledgers,
            key_log=key_log,
        )
        self._key_log = key_log
        self._key_log_version = 0
        self._keyless = WaitingConnections(MAX_KEY_WAIT)
        """Connections that wait for their secrets."""
        self._open: OrderedDict[ConnectionKey, Connection] = OrderedDict()
        """In the order of their latest segments."""
        self._waiting = WaitingConnections(MAX_WAIT)
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
        return self.process(segment)

    def process(self, segment: Segment, known: Connection | None = None) -> list[Record]:
        """Process the next packet's segment, and return the records that it completes.

        `known` is its open connection, if that was looked up.
        """
        self.ledger.packets["tcp"] += 1
        return list(self._records(segment, known))

    def finish(self) -> list[Record]:
        """Return the records of all held bytes at the source's end. Open connections get no CLOSED record."""
        records = [record for connection in self._open.values() for record in _finish(connection)]
        for connection in self._open.values():
            self._notify_end(connection)
        self._open.clear()
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
        yield from self._close_idle(segment)
        yield from self._give_up_overdue(segment)
        connection = self.find(segment) if known is None or known.is_closed else known
        if connection is not None and connection.is_replaced_by(segment):
            yield from connection.give_up_all()
            self._note(connection, segment)
            if not connection.is_closed:
                yield from self._close(connection, Closing.REPLACED, segment)
            connection = None
        if connection is None:
            connection = self._admission.admit(segment)
            if connection is None:
                return
            yield from self._evict_oldest(segment)
            yield connection.open(segment)
        self._open[connection.client, connection.server] = connection
        self.touch(connection)
        yield from connection.process(segment)
        self._note(connection, segment)
        if self.held > self._max_held:
            yield from self._evict_heaviest(segment)

    def adopt(
        self, client: SocketAddress, server: SocketAddress, opening: Opening, opened: Record
    ) -> Connection:
        """Follow a connection that another tracker opened with a SYN. Its state must then be restored."""
        connection = self._admission.connection(client, server)
        connection.continue_from(opened, opening)
        self._open[client, server] = connection
        return connection

    def end(self, connection: Connection, captured_at: int) -> None:
        """Close a connection whose end was captured, after another tracker processed its packets."""
        connection.is_closed = True
        self._remember(connection, captured_at)

    @property
    def notifies_ends(self) -> bool:
        """Whether somebody is called when a connection is no longer followed."""
        return self._on_end is not None

    @property
    def run(self) -> Run:
        """What all records share."""
        return self._run

    def _note(self, connection: Connection, segment: Segment) -> None:
        """Note what a connection holds, whether it waits, and whether it was closed when `segment` came."""
        self._note_held(connection)
        self._waiting.note(connection, connection.waits_since)
        if connection.is_closed:
            self._remember(connection, segment.captured_at)

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

    def overdue(self, captured_at: int) -> list[Connection]:
        """Return the connections that a packet captured at a time makes give up, if none is evicted.

        They are the first ones that wait, so the others are not looked at, however many they are.
        """
        return list(self._waiting.overdue(captured_at))

    def _give_up_overdue(self, segment: Segment) -> Iterator[Record]:
        until = self.waits_until
        if until is None or segment.captured_at <= until:
            return
        while (connection := next(self._waiting.overdue(segment.captured_at), None)) is not None:
            yield from connection.give_up()
            self._note(connection, segment)
            if self.held > self._max_held:
                yield from self._evict_heaviest(segment)
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

    def _remember(self, connection: Connection, closed_at: int) -> None:
        del self._open[connection.client, connection.server]
        self._notify_end(connection)
        self.closed.add(connection, closed_at)

    def _close(self, connection: Connection, closing: Closing, segment: Segment) -> Iterator[Record]:
        """Close a connection for another reason than its own segments, when `segment` is captured."""
        yield from connection.close(closing, segment.captured_at, segment.position)
        self._count_held(connection)
        del self._open[connection.client, connection.server]
        self._waiting.note(connection, None)
        self._keyless.note(connection, None)
        self._notify_end(connection)

    def _notify_end(self, connection: Connection) -> None:
        if self._on_end:
            self._on_end(connection.client, connection.server, connection.ledger)

    def _close_idle(self, segment: Segment) -> Iterator[Record]:
        while self._open:
            oldest = next(iter(self._open.values()))
            if segment.captured_at - oldest.last_seen_at <= KEPT_FOR:
                return
            yield from self._close(oldest, Closing.IDLE, segment)

    def _count_held(self, connection: Connection) -> None:
        held = connection.held
        self.held += held - connection.counted_held
        connection.counted_held = held

    def _evict_heaviest(self, segment: Segment) -> Iterator[Record]:
        """Close the connections that hold most, until half of `max_held` is free."""
        if self._before_eviction:
            self._before_eviction()
        for connection in sorted(self._open.values(), key=lambda each: each.counted_held, reverse=True):
            if self.held <= self._max_held // 2:
                return
            yield from self._close(connection, Closing.EVICTED, segment)

    def _evict_oldest(self, segment: Segment) -> Iterator[Record]:
        while len(self._open) >= self._max_connections:
            yield from self._close(next(iter(self._open.values())), Closing.EVICTED, segment)


def _finish(connection: Connection) -> Iterator[Record]:
    """Yield the last records at the source's end: CLOSED only if the connection's end was captured."""
    yield from connection.give_up_all()
    if not connection.is_closed:
        yield from connection.flush()
