"""Which segments begin a connection that is followed, and which of its sides is the server.

The server is the side whose port is watched. Without ports it is the side that receives the SYN or, if a
connection was joined mid-stream, the side that receives bytes that decode as a request.
"""

from __future__ import annotations

from collections.abc import Mapping

from decoders.tls.key_log import KeyLog
from decoders.wire.closed_connections import ClosedConnections, ConnectionKey
from decoders.wire.connection import Connection
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.recorder import Run
from decoders.wire.segment import Segment, SocketAddress, TcpFlag


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
        """Return a new connection for a segment that belongs to none, None if it does not show one."""
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
        """Return a new connection. If secrets are expected its TLS is decrypted."""
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
