"""How long a connection waits for bytes that passed on the wire and were not captured so far.

Queues of a network card, mirror ports and the rings of AF_PACKET deliver packets some milliseconds late. A
wait ends when what was awaited at its beginning is there, or when one of the limits is reached. What was
shown to be missing in the meantime then has a wait of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from decoders.frame.record import Direction
from decoders.wire.stream import Stream

MAX_WAIT = 100_000_000
"""Nanoseconds of capture time after which a wait is given up when the next packet is captured."""
MAX_WAIT_SEGMENTS = 1_000
"""Segments of the connection after which a wait is given up: clocks of captures may stand still."""


class Patience:
    """The wait of one connection: since when, in nanoseconds since the epoch, and for what.

    `since` is None while there is no wait. `ends` has the offset up to which the bytes of each direction were
    awaited when the wait began.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self.ends: Mapping[Direction, int] = {}
        self._segments = 0

    def note(self, captured_at: int, streams: Mapping[Direction, Stream], *, is_held_up: bool) -> None:
        """Begin to wait, go on or end, when a segment was processed.

        `is_held_up` is true if something else is awaited than bytes of the streams.
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
        """Whether it has waited for so many segments that it must give up, whatever the clock says."""
        return self._segments > MAX_WAIT_SEGMENTS

    def end(self) -> None:
        """Wait no longer."""
        self.since, self._segments, self.ends = None, 0, {}
