"""Closed connections, remembered for a while, so that their last segments do not open new ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import NamedTuple

from decoders.wire.connection import Connection
from decoders.wire.opening import Opening
from decoders.wire.segment import Segment, SocketAddress, TcpFlag

TIME_WAIT = 60 * 1_000_000_000
"""Nanoseconds for which a closed connection is remembered: as long as Linux keeps the state TIME_WAIT."""

ConnectionKey = tuple[SocketAddress, SocketAddress]
"""Client and server."""


class _Closed(NamedTuple):
    """How a connection was opened, and when it was closed, in nanoseconds since the epoch."""

    opening: Opening | None
    closed_at: int


class ClosedConnections:
    """Remembers the latest closed connections, at most `limit`, one of each client and server.

    `before_use` is called before they are looked at and before a connection of the tracker is added: another
    tracker may know of earlier ends, and remembers them now.
    """

    def __init__(self, limit: int, before_use: Callable[[], None] | None = None) -> None:
        self._limit = limit
        self._before_use = before_use
        self._closed: OrderedDict[ConnectionKey, _Closed] = OrderedDict()

    @property
    def keys(self) -> Collection[ConnectionKey]:
        """Client and server of each, the one that ended first first."""
        return self._up_to_date().keys()

    def add(self, connection: Connection, closed_at: int) -> None:
        """Remember a connection of the tracker."""
        self._up_to_date()
        self.remember(connection.client, connection.server, connection.opening, closed_at)

    def remember(
        self, client: SocketAddress, server: SocketAddress, opening: Opening | None, closed_at: int
    ) -> None:
        """Remember a connection that ended before those that are added from now on."""
        key = client, server
        self._closed[key] = _Closed(opening, closed_at)
        self._closed.move_to_end(key)
        if len(self._closed) > self._limit:
            self._closed.popitem(last=False)

    def has_straggler(self, connection: Connection, segment: Segment) -> bool:
        """Whether a segment belongs to a closed connection between the sockets of a new one."""
        closed = self._up_to_date().get((connection.client, connection.server))
        if closed is None:
            return False
        if segment.flags & TcpFlag.SYN:
            return connection.repeats(segment, closed.opening)
        return segment.captured_at - closed.closed_at <= TIME_WAIT

    def _up_to_date(self) -> OrderedDict[ConnectionKey, _Closed]:
        if self._before_use:
            self._before_use()
        return self._closed
