"""How a connection ends: which RST counts, which side closed first, and what shows that it goes on.

Whoever can send packets can send a RST, so one ends a connection only if its receiver takes it: with the
sequence number that the receiver expects (RFC 9293 section 3.5.3, RFC 5961 section 3).

    sequence number of the RST         it counts
    ---------------------------------  ------------------------------------------------------------------
    that of the next byte, or the one  at once, or when the bytes that it acknowledges are captured or
    behind the FIN                     given up
    ahead, by MAX_AHEAD at most        when the bytes before it are captured; or when they are given up,
                                       unless the connection has gone on since
    any other                          never
    unknown, as no segment of its      if it acknowledges the SYN
    sender was captured

The connection goes on if the receiver of the RST then sends anything, or if its sender sends bytes, or
anything at or behind the number of the RST.

Whoever knows the expected number can still deceive. A RST with a wrong checksum, which a client may send
before each request, ends the connection here and not at the broker. So new bytes on a closed connection
contradict its close (`Ends`), unless a stranger has sent them: a host whose address was forged in a SYN
answers the SYN-ACK with a RST, and requests may still follow in its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.wire.segment import Segment, TcpFlag
from decoders.wire.stream import MAX_AHEAD, SEQUENCE_SPACE, Stream

OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}
CROSSING = 1_000_000_000
"""Nanoseconds for which a side may go on after the other one has closed: its segments cross on their way."""


class Ends(NamedTuple):
    """Where a closed connection ended, TO_BROKER first and then TO_CLIENT.

    `numbers` are the sequence numbers behind the last bytes, None if the direction has not begun; `closed`
    says whether its sender closed it.
    """

    numbers: tuple[int | None, int | None]
    closed: tuple[bool, bool]

    def contradicts(self, direction: Direction, segment: Segment, age: int) -> bool:
        """Whether a segment, captured `age` nanoseconds after the close, shows that the connection goes on.

        It does if it carries bytes behind the last one of its side, and that side had closed or the close is
        more than CROSSING ago. So does a SYN-ACK of a broker that refused the connection.
        """
        column = 0 if direction is Direction.TO_BROKER else 1
        has_closed, number = self.closed[column], self.numbers[column]
        size = len(segment.payload) + segment.missing
        if segment.flags & TcpFlag.SYN or number is None:
            return has_closed and number is None and bool(size or segment.flags & TcpFlag.ACK)
        ahead = (segment.sequence + size - number) % SEQUENCE_SPACE
        return size > 0 and 0 < ahead <= MAX_AHEAD and (has_closed or age > CROSSING)

    def is_proof(self, segment: Segment, client_initial: int | None) -> bool:
        """Whether a segment shows that the client received what the broker sent.

        Also true if nobody can tell. The broker sends nothing behind its SYN-ACK before the client has sent
        its first byte, the one behind the sequence number of its SYN.
        """
        sent, received = self.numbers
        if received is None:
            return True
        is_silent = client_initial is not None and sent == (client_initial + 1) % SEQUENCE_SPACE
        tolerance = 0 if is_silent else MAX_AHEAD
        ahead = (segment.acknowledgment - received + tolerance) % SEQUENCE_SPACE
        return bool(segment.flags & TcpFlag.ACK) and ahead <= 2 * tolerance


class Reset:
    """A RST that its receiver takes, or may take. `went_on` is whether the connection has gone on since."""

    def __init__(self, direction: Direction, segment: Segment) -> None:
        self.direction = direction
        self._segment = segment
        self.went_on = False

    def is_possible(self, streams: Mapping[Direction, Stream]) -> bool:
        """Whether the receiver may take it."""
        own, other = streams.get(self.direction), streams.get(OTHER[self.direction])
        if own is not None:
            offset = own.offset_of(self._segment.sequence)
            return own.expects(offset) or own.may_end_at(offset)
        if other is None or not self._segment.flags & TcpFlag.ACK:
            return False
        return 0 <= other.offset_of(self._segment.acknowledgment) <= other.next_offset

    def is_expected(self, streams: Mapping[Direction, Stream]) -> bool:
        """Whether the receiver takes it, provided that no byte of its sender was missed."""
        own = streams.get(self.direction)
        return own is None or own.expects(own.offset_of(self._segment.sequence))

    def is_passed(self, streams: Mapping[Direction, Stream]) -> bool:
        """Whether its sender has sent bytes behind it."""
        own = streams.get(self.direction)
        return own is not None and own.next_offset > own.offset_of(self._segment.sequence)

    def note(self, direction: Direction, segment: Segment, streams: Mapping[Direction, Stream]) -> None:
        """Note a later segment, which may show that the connection goes on."""
        own = streams.get(self.direction)
        if (
            direction is not self.direction
            or segment.payload
            or own is None
            or own.offset_of(segment.sequence) >= own.offset_of(self._segment.sequence)
        ):
            self.went_on = True

    def ends(self, streams: Mapping[Direction, Stream]) -> dict[Direction, int]:
        """Return up to which offset its sender has sent and, if the RST has ACK, received."""
        numbers = {self.direction: self._segment.sequence}
        if self._segment.flags & TcpFlag.ACK:
            numbers[OTHER[self.direction]] = self._segment.acknowledgment
        return {each: streams[each].offset_of(number) for each, number in numbers.items() if each in streams}

    def awaits(self, streams: Mapping[Direction, Stream]) -> bool:
        """Whether bytes that passed before it are missing."""
        is_missing = any(not streams[each].has_reached(end) for each, end in self.ends(streams).items())
        return is_missing or any(stream.held for stream in streams.values())


class ClosingSides:
    """Finds out which side closed first: by a FIN, a RST or, over TLS, the alert close_notify.

    The order of capture does not decide it: two FINs may be captured in another order than they were sent,
    and a close_notify is read only when its key is known, perhaps after the FIN that follows it. A side is
    named by the direction in which it sends. `closers` has each side that sent a FIN or RST, in the order of
    their capture, and the offset up to which it had received the other direction by then.
    """

    def __init__(self) -> None:
        self.closers: dict[Direction, int] = {}
        self._notified_by: Direction | None = None
        """The side that sent close_notify before any FIN or RST. The FIN of its peer may come first."""
        self._closed_at = 0
        """The position of the first FIN or RST: a close_notify that is read later may precede it."""

    @property
    def has_close_notify(self) -> bool:
        """Whether a close_notify was the first."""
        return self._notified_by is not None

    def note_closed(self, side: Direction, had_received: int, position: int) -> None:
        """Note the FIN or RST of a side."""
        if not self.closers:
            self._closed_at = position
        self.closers.setdefault(side, had_received)

    def withdraw(self, side: Direction) -> None:
        """Note that a side has not closed."""
        self.closers.pop(side, None)

    def note_close_notify(self, side: Direction, position: int) -> None:
        """Note the close_notify of a side. One that follows the first FIN or RST changes nothing."""
        if self._notified_by is None and (not self.closers or position < self._closed_at):
            self._notified_by = side

    def first(self, streams: Mapping[Direction, Stream]) -> Direction:
        """Return the side that sent the first close_notify, FIN or RST, NONE if none was captured.

        Of two FINs or RSTs the one captured later was sent first if it is a FIN that the other acknowledges.
        """
        if self._notified_by is not None:
            return self._notified_by
        first, *others = (*self.closers, Direction.NONE)
        second = others[0] if others else Direction.NONE
        if second in streams and streams[second].has_end_before(self.closers[first]):
            return second
        return first
