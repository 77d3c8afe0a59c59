"""Which connections a tracker closes without a packet of their own, and how many at once.

When strangers open more than it follows, it evicts those that have come least far:

    standing    what was captured of the connection              next
    ----------  -----------------------------------------------  ---------------------------------------------
    UNSEEN      nothing                                          UNANSWERED at a segment of the client,
                                                                 ANSWERED at one of the broker
    UNANSWERED  segments of the client alone                     ANSWERED at a segment of the broker
    ANSWERED    nothing of the client after the broker answered  SPEAKING at bytes of the client, SILENT at a
                                                                 segment without any; if the SYN was captured,
                                                                 only segments count that acknowledge the
                                                                 SYN-ACK
    SILENT      a handshake, but no bytes of the client since    SPEAKING at bytes of the client
    SPEAKING    bytes of the client                              none

A connection that is UNANSWERED or ANSWERED is half-open. A forged source address gets no further: only a
host that receives the broker's segments can acknowledge them. Connections are evicted in the order of these
states, and those in the same state in the order of their latest segments.

When all together hold too many bytes, those that hold most are evicted, until half is free. Every
IDLE_INTERVAL of capture time those that were silent for KEPT_FOR are closed as idle. Each time at most
`closed_at_once` are closed: many, because ordering all connections takes a millisecond, and not all, because
closing one may take 150 microseconds.
"""

from __future__ import annotations

import enum
from typing import Final

from decoders.frame.record import Direction

MAX_CONNECTIONS: Final = 50_000
"""Open connections. Each takes up to 10 kB besides the bytes that it holds."""

IDLE_INTERVAL: Final = 100_000_000
"""Nanoseconds of capture time between two searches for idle connections."""

HEAVY: Final = "heavy"
"""The name in metrics of connections that are evicted because of the bytes that they hold."""


class Standing(enum.IntEnum):
    """How far a connection has come. Connections that have come least far are evicted first."""

    UNSEEN = 0
    UNANSWERED = 1
    ANSWERED = 2
    SILENT = 3
    SPEAKING = 4

    def after(self, direction: Direction, *, has_bytes: bool) -> Standing:
        """Return the standing after a segment."""
        if direction is Direction.TO_CLIENT:
            return max(self, Standing.ANSWERED)
        if self < Standing.ANSWERED:
            return Standing.UNANSWERED
        return Standing.SPEAKING if has_bytes else max(self, Standing.SILENT)

    @property
    def shown(self) -> str:
        """The name in metrics."""
        return "half-open" if self.is_half_open else self.name.lower()

    @property
    def is_half_open(self) -> bool:
        """Whether nothing shows that the client receives what the broker sends."""
        return Standing.UNSEEN < self < Standing.SILENT


def max_half_open(max_connections: int) -> int:
    """Return how many of the connections that are followed may be half-open."""
    return max(1, max_connections // 2)


def closed_at_once(max_connections: int) -> int:
    """Return how many connections are evicted, or closed as idle, when a packet comes."""
    return max(1, max_connections // 128)


def may_be_idle(captured_at: int, looked_at: int) -> bool:
    """Whether it is time to look for idle connections, which was last done at `looked_at`."""
    return not 0 <= captured_at - looked_at < IDLE_INTERVAL
