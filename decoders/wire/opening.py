"""How a connection was opened: with which SYN, and which other SYNs are of the same connection."""

from __future__ import annotations

from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.wire.segment import Segment, TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE


class Opening(NamedTuple):
    """The client's SYN: its sequence number, and how many bytes it carries.

    A SYN with bytes is one of TCP Fast Open (RFC 7413): the SYN-ACK may acknowledge any part of them.
    """

    sequence: int
    size: int

    def is_repeated_by(self, direction: Direction, segment: Segment) -> bool:
        """Whether a SYN or SYN-ACK between the same sockets is of the connection that was opened so."""
        found = opening_in(direction, segment)
        acknowledged = 0 if direction is Direction.TO_BROKER else self.size
        return found is not None and (found.sequence - self.sequence) % SEQUENCE_SPACE <= acknowledged


def opening_in(direction: Direction, segment: Segment) -> Opening | None:
    """Return the client's SYN, from itself or from the SYN-ACK, None for other segments."""
    if not segment.flags & TcpFlag.SYN:
        return None
    if direction is Direction.TO_BROKER:
        return Opening(segment.sequence, len(segment.payload) + segment.missing)
    return Opening((segment.acknowledgment - 1) % SEQUENCE_SPACE, 0)
