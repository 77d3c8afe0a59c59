"""Which segments begin a connection that is followed, and which of its sides is the server.

The server is the side whose port is watched. Without ports it is the side that receives the SYN or, if a
connection was joined mid-stream, the side that receives bytes that decode as a request. A segment begins no
connection if it belongs to one that was closed a short while ago: closed connections are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.tls.key_log import KeyLog
from decoders.wire.closing import Ends
from decoders.wire.connection import ClientSyn, Connection
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.ledger import Contradiction, Ledger, SkipReason
from decoders.wire.recorder import Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag

TIME_WAIT = 60 * 1_000_000_000
"""Nanoseconds for which a closed connection is remembered: as long as Linux keeps the state TIME_WAIT."""

ConnectionKey = tuple[SocketAddress, SocketAddress]
"""Client and server."""


class _ClosedConnection(NamedTuple):
    """A closed connection. `closed_at` is in nanoseconds since the epoch."""

    client_syn: ClientSyn | None
    closed_at: int
    ends: Ends

    def is_contradicted_by(self, connection: Connection, segment: Segment) -> bool:
        """Whether a segment shows that it goes on. `connection` is a new one between the same sockets."""
        age = segment.captured_at - self.closed_at
        return self.ends.contradicts(connection.direction(segment), segment, age)

    def is_forged(self, connection: Connection, segment: Segment) -> bool:
        """Whether a segment has the client's address, and the client has not sent it."""
        is_of_client = connection.direction(segment) is Direction.TO_BROKER
        initial = None if self.client_syn is None else self.client_syn.sequence
        is_first = bool(segment.flags & TcpFlag.SYN)
        return is_of_client and not is_first and not self.ends.is_proof(segment, initial)


class ClosedConnections:
    """Remembers the latest closed connections, at most `limit`, one of each client and server.

    `before_use` is called before a lookup and before a connection of the tracker is added, so that another
    tracker can first add the connections that it saw end earlier.
    """

    def __init__(self, limit: int, before_use: Callable[[], None] | None = None) -> None:
        self._limit = limit
        self._before_use = before_use
        self._closed: OrderedDict[ConnectionKey, _ClosedConnection] = OrderedDict()

    def add(self, connection: Connection, closed_at: int, ends: Ends) -> None:
        """Remember a connection of the tracker."""
        self._up_to_date()
        self.remember(connection.client, connection.server, connection.client_syn, closed_at, ends)

    def remember(
        self,
        client: SocketAddress,
        server: SocketAddress,
        client_syn: ClientSyn | None,
        closed_at: int,
        ends: Ends,
    ) -> None:
        """Remember a connection as the latest that has ended."""
        key = client, server
        self._closed[key] = _ClosedConnection(client_syn, closed_at, ends)
        self._closed.move_to_end(key)
        if len(self._closed) > self._limit:
            self._closed.popitem(last=False)

    def has_straggler(self, connection: Connection, segment: Segment) -> bool:
        """Whether a segment belongs to the closed connection between the same sockets, not to a new one."""
        closed = self._up_to_date().get((connection.client, connection.server))
        if closed is None:
            return False
        if segment.flags & TcpFlag.SYN:
            is_straggler = connection.repeats(segment, closed.client_syn)
        else:
            is_straggler = segment.captured_at - closed.closed_at <= TIME_WAIT
        if is_straggler and closed.is_contradicted_by(connection, segment):
            is_forged = closed.is_forged(connection, segment)
            connection.ledger.contradict(Contradiction.ACKNOWLEDGMENT if is_forged else Contradiction.CLOSE)
            return is_forged
        return is_straggler

    def _up_to_date(self) -> OrderedDict[ConnectionKey, _ClosedConnection]:
        if self._before_use:
            self._before_use()
        return self._closed


class Admission:
    """Makes the connections of a tracker.

    `ledger` counts the bytes of all of them, `port_ledgers` those of each watched port; if there are none,
    every port is watched. `closed` has the connections that were followed before.
    """

    def __init__(
        self,
        run: Run,
        detector: FrameDetector,
        closed: ClosedConnections,
        *,
        ledger: Ledger,
        port_ledgers: Mapping[int, Ledger],
        key_log: KeyLog | None,
    ) -> None:
        self._run = run
        self._detector = detector
        self._key_log = key_log
        self._ledger = ledger
        self._port_ledgers = port_ledgers
        self._closed = closed

    def admit(self, segment: Segment) -> Connection | None:
        """Return a new connection for a segment that belongs to none, None if it does not begin one."""
        key = self._orient(segment)
        if isinstance(key, SkipReason):
            self._skip(key, segment)
            return None
        if _shows_connection(segment):
            connection = self.connection(*key)
            if not self._closed.has_straggler(connection, segment):
                return connection
        self._skip(SkipReason.AFTER_CLOSE, segment)
        return None

    def connection(self, client: SocketAddress, server: SocketAddress) -> Connection:
        """Return a new connection. Its TLS is decrypted if secrets are expected."""
        ledger = self._port_ledgers.get(server.port, self._ledger)
        expects_secrets = self._key_log is not None and self._key_log.is_expected
        key_log = self._key_log if expects_secrets else None
        return Connection(self._run, self._detector, ledger, client, server, key_log=key_log)

    def _skip(self, reason: SkipReason, segment: Segment) -> None:
        self._ledger.capture(len(segment.payload))
        self._ledger.skip(reason, len(segment.payload))

    def _orient(self, segment: Segment) -> ConnectionKey | SkipReason:
        forth, back = (segment.source, segment.destination), (segment.destination, segment.source)
        to_watched, from_watched = (address.port in self._port_ledgers for address in back)
        if to_watched != from_watched:
            return forth if to_watched else back
        if self._port_ledgers and not to_watched:
            return SkipReason.OTHER_PORT
        if segment.flags & TcpFlag.SYN:
            return back if segment.flags & TcpFlag.ACK else forth
        return forth if self._detector.resumes_requests(segment.payload) else SkipReason.UNORIENTED


def _shows_connection(segment: Segment) -> bool:
    """Whether a segment opens a connection, or has bytes of one that is joined mid-stream."""
    if segment.flags & TcpFlag.RST:
        return False
    return bool(segment.flags & TcpFlag.SYN or segment.payload or segment.missing)
