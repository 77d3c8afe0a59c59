"""Waiting for packets that are captured late: for which, since when, and until when.

Packets may be captured in another order than they were sent: an acknowledgment before its data, a response
before its request, a FIN or RST before the last bytes, a request before the SYN-ACK. So a connection may have
to wait:

    a wait begins when                              and ends when
    ----------------------------------------------  --------------------------------------------------------
    a segment is captured before the SYN of the     that SYN is captured
    other direction (HALF_OPEN)
    the client's first segment behind the SYN-ACK   what it acknowledges is captured
    acknowledges nothing that was captured
    acknowledged bytes are missing: they must have  all bytes that were acknowledged when it began have
    passed on the wire                              passed on
    bytes before a RST are missing (CLOSING)        they have passed on

A wait is given up when any packet is captured more than MAX_WAIT later, after MAX_WAIT_SEGMENTS of the
connection, or when the connection buffers more than MAX_HELD bytes. Missing bytes are then lost: they become
a gap. Bytes that turn out to be missing during one wait get a wait of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Generic, TypeVar

from decoders.frame.record import Direction
from decoders.wire.stream import Stream

MAX_WAIT = 100_000_000
"""Nanoseconds of capture time. Queues of a network card, mirror ports and the rings of AF_PACKET deliver
packets some milliseconds late."""
MAX_WAIT_SEGMENTS = 1_000
"""Segments of the connection that end a wait even if the clock of the capture stands still."""
T = TypeVar("T")
"""A connection, by identity."""


class Wait:
    """The current wait of one connection, if any.

    `since` is the capture time at which it began, in nanoseconds since the epoch; None while there is none.
    `ends` has the offset up to which the bytes of each direction were awaited when it began.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self.ends: Mapping[Direction, int] = {}
        self._segments = 0

    def note(self, captured_at: int, streams: Mapping[Direction, Stream], *, is_held_up: bool) -> None:
        """Begin, continue or end the wait, after a segment was processed.

        `is_held_up` is true if something other than bytes of the streams is awaited.
        """
        self._segments += 1
        ends = {each: stream.awaited_end for each, stream in streams.items() if stream.has_lost_bytes}
        if not ends and not is_held_up:
            self.end()
        elif self.since is None or not (
            is_held_up or any(streams[each].next_offset < self.ends.get(each, 0) for each in ends)
        ):
            self.since, self._segments, self.ends = captured_at, 0, ends

    @property
    def is_exhausted(self) -> bool:
        """Whether it has lasted for so many segments that it must be given up, whatever the clock says."""
        return self._segments > MAX_WAIT_SEGMENTS

    def end(self) -> None:
        """End the wait."""
        self.since, self._segments, self.ends = None, 0, {}


class WaitingConnections(Generic[T]):
    """Connections that wait, for at most `max_wait` nanoseconds of capture time.

    They are in the order in which they began to wait, so only the first ones are examined, however many wait.
    """

    def __init__(self, max_wait: int) -> None:
        self._max_wait = max_wait
        self._since: OrderedDict[T, int] = OrderedDict()

    def __iter__(self) -> Iterator[T]:
        """Yield those that wait. `note` may be called during the iteration."""
        return iter(list(self._since))

    def note(self, connection: T, since: int | None) -> None:
        """Note the capture time since which a connection waits, None if it does not wait."""
        if since is None:
            self._since.pop(connection, None)
        elif self._since.get(connection) != since:
            self._since[connection] = since
            self._since.move_to_end(connection)

    def clear(self) -> None:
        """Forget all connections."""
        self._since.clear()

    @property
    def until(self) -> int | None:
        """The capture time until which the first connection waits, None if none waits."""
        return next((since + self._max_wait for since in self._since.values()), None)

    def overdue(self, captured_at: int) -> Iterator[T]:
        """Yield the connections whose wait has ended by a capture time."""
        begun = captured_at - self._max_wait
        return (connection for connection, _ in takewhile(lambda wait: wait[1] < begun, self._since.items()))
