"""Which side of a connection closed first, by a FIN, a RST or, over TLS, the alert close_notify.

The order in which the packets were captured does not show it: two FINs may be captured in another order than
they were sent, and a close_notify is read only when its key is known, perhaps behind the FIN that came later.
"""

from __future__ import annotations

from collections.abc import Mapping

from decoders.frame.record import Direction
from decoders.wire.stream import Stream


class ClosingSides:
    """Notes who closes a connection. A side is named by the direction in which it sends.

    `closers` has each side that sent a FIN or RST, in the order of their capture, and up to which offset it
    had received the other direction by then.
    """

    def __init__(self) -> None:
        self.closers: dict[Direction, int] = {}
        self._notified_by: Direction | None = None
        """The side that sent close_notify before any FIN or RST. The FIN of its peer may come first."""
        self._closed_at: int | None = None
        """The position of the first FIN or RST over TLS. A close_notify before it may wait for its key."""

    def note_closed(self, side: Direction, had_received: int, position: int, *, over_tls: bool) -> None:
        """Note the FIN or RST of a side."""
        if not self.closers and over_tls:
            self._closed_at = position
        self.closers.setdefault(side, had_received)

    def note_close_notify(self, side: Direction, position: int) -> None:
        """Note the close_notify of a side. Those behind the first FIN or RST say nothing new."""
        is_first = not self.closers or (self._closed_at is not None and position < self._closed_at)
        if is_first and self._notified_by is None:
            self._notified_by = side

    @property
    def can_be_offloaded(self) -> bool:
        """Whether `closers` are the whole state: TLS has not begun to close."""
        return self._notified_by is None and self._closed_at is None

    def first(self, streams: Mapping[Direction, Stream]) -> Direction:
        """Return the side that sent the first close_notify, FIN or RST, NONE if none is known.

        If the one captured first acknowledges the FIN of the other, as `streams` show, that one was first.
        """
        if self._notified_by is not None:
            return self._notified_by
        first, *others = (*self.closers, Direction.NONE)
        second = others[0] if others else Direction.NONE
        if second in streams and streams[second].is_end_behind(self.closers[first]):
            return second
        return first
