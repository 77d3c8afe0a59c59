"""How long a connection waits for bytes that passed on the wire and were not captured so far.

Queues of a network card, mirror ports and the rings of AF_PACKET deliver packets some milliseconds late. A
wait ends when what was awaited at its beginning is there, or when one of the limits is reached. What was
shown to be missing in the meantime then has a wait of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from decoders.frame.record import Direction

MAX_WAIT = 100_000_000
"""Nanoseconds of capture time after which a wait is given up when the next packet is captured."""
MAX_WAIT_SEGMENTS = 1_000
"""Segments of the connection after which a wait is given up: clocks of captures may stand still."""


class Patience:
    """The wait of one connection: since when (nanoseconds since the epoch), and for how many segments.

    `since` is None while there is no wait. `ends` has the offset up to which the bytes of each direction were
    awaited when the wait began.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self.segments = 0
        self.ends: dict[Direction, int] = {}

    def begin(self, since: int, ends: Mapping[Direction, int]) -> None:
        """Begin to wait."""
        self.since, self.segments, self.ends = since, 0, dict(ends)

    def end(self) -> None:
        """Wait no longer."""
        self.since, self.segments, self.ends = None, 0, {}
