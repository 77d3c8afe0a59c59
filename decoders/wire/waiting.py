"""Connections that wait for something, in the order in which they began to: those behind need no look."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile

from decoders.wire.connection import Connection
from decoders.wire.segment import SocketAddress


class WaitingConnections:
    """Connections that wait for at most `patience` nanoseconds of capture time, and since when."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._waits: OrderedDict[tuple[SocketAddress, SocketAddress], tuple[int, Connection]] = OrderedDict()

    def __iter__(self) -> Iterator[Connection]:
        """Yield those that wait; they may be noted meanwhile."""
        return iter([connection for _, connection in self._waits.values()])

    def note(self, connection: Connection, since: int | None) -> None:
        """Note since when a connection waits; None if it does not wait any more."""
        if since is None and not self._waits:
            return
        key = connection.client, connection.server
        if since is None:
            self._waits.pop(key, None)
        elif key not in self._waits or self._waits[key][0] != since:
            self._waits[key] = since, connection
            self._waits.move_to_end(key)

    def clear(self) -> None:
        """Forget all connections."""
        self._waits.clear()

    @property
    def until(self) -> int | None:
        """The capture time until which the first connection waits; None if none waits."""
        if not self._waits:
            return None
        since, _ = next(iter(self._waits.values()))
        return since + self._patience

    def overdue(self, captured_at: int) -> Iterator[Connection]:
        """Yield the first connections, as far as their patience has ended by a capture time."""
        begun = captured_at - self._patience
        return (each for _, each in takewhile(lambda wait: wait[0] < begun, self._waits.values()))
