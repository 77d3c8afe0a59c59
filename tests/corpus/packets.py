"""The records of a case → the packets of a capture that shows the same.

What a record says that no packet can show is refused: bytes that the feeder cut, a tracker that gave a
connection up, what is not Kafka, lost bytes that nothing follows, and a response before that of an older
request, which cases leave out where they do not matter.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from decoders.frame.record import Closing, Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.wire.framing import SHORTEST_FRAME
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection

SETTLED_AFTER = 1_100_000_000
"""Nanoseconds that pass before a request that must count as sent after what came before was read."""
SEQUENCE_STEP = 1 << 24
_LENGTH = struct.Struct(">I")
_OTHER = {Direction.TO_BROKER: Direction.TO_CLIENT, Direction.TO_CLIENT: Direction.TO_BROKER}
_CAPTURABLE = {Closing.FIN, Closing.RST}
Pair = tuple[Endpoint, Endpoint]


class NotCapturableError(Exception):
    """What no packet can show; the message says what it is."""


class _Connection(SyntheticConnection):
    """A connection whose client acknowledges only when it is told to, and whose bytes may be lost."""

    has_spoken = False
    """Whether it has shown a frame, so that it is known to be Kafka."""

    def hold(self) -> None:
        """Acknowledge nothing new from now on."""
        self._acknowledgment_delay = 1 << 62

    def catch_up(self) -> None:
        """Acknowledge everything so far, and what comes next."""
        self._acknowledgment_delay = 0

    def lose(self, direction: Direction, size: int) -> None:
        """Let bytes pass that the capture misses."""
        self._next[direction] += size


def packets_of(records: Iterable[Record]) -> Iterator[Packet]:
    """Yield the packets in the order of their times. Raises NotCapturableError."""
    records = list(records)
    _refuse_invisible_gaps(records)
    _refuse_overtaking(records)
    connections: dict[bytes, _Connection] = {}
    in_use: dict[Pair, bytes] = {}
    delay = 0
    for record in records:
        if record.flags & Flag.SETTLED:
            delay += SETTLED_AFTER
        at = record.captured_at + delay
        pair = record.client, record.server
        if record.kind is Kind.OPENED:
            if pair in in_use:
                raise NotCapturableError("two connections at once between the same addresses")
            in_use[pair] = record.connection
            # As a system does it: each connection's numbers are far behind those of the one before.
            first = len(connections) * SEQUENCE_STEP
            connections[record.connection] = _Connection(
                *map(_address, pair), initial_sequences=(first, first)
            )
        if record.kind is Kind.CLOSED:
            in_use.pop(pair, None)
        yield from _packets(connections[record.connection], record, at)


def _refuse_invisible_gaps(records: Sequence[Record]) -> None:
    for place, gap in enumerate(records):
        following = [each for each in records[place:] if each.connection == gap.connection and each.frame]
        if gap.kind is Kind.GAP and not any(each.direction is gap.direction for each in following):
            raise NotCapturableError("lost bytes that nothing follows")


def _refuse_overtaking(records: Sequence[Record]) -> None:
    in_flight: dict[bytes, list[int]] = defaultdict(list)
    for record in records:
        waiting = in_flight[record.connection]
        if record.kind is Kind.REQUEST:
            waiting.append(record.sequence)
        elif record.pairing is Pairing.MATCHED and waiting.pop(0) != record.paired_sequence:
            raise NotCapturableError("a response before that of an older request")


def _packets(connection: _Connection, record: Record, at: int) -> list[Packet]:
    match record.kind:
        case Kind.OPENED:
            return [] if record.flags & Flag.MID_STREAM else connection.opened(at)
        case Kind.REQUEST | Kind.RESPONSE:
            return _frame(connection, record, at)
        case Kind.GAP:
            connection.lose(record.direction, record.true_length)
            return []
        case Kind.INVALID_SIZE if connection.has_spoken:
            # A frame that is too short is read to its end.
            rest = bytes(record.true_length if record.true_length < SHORTEST_FRAME else 0)
            return connection.sent(at, record.direction, _LENGTH.pack(record.true_length) + rest)
        case Kind.CLOSED if record.closing in _CAPTURABLE:
            return _closing(connection, record, at)
    raise NotCapturableError(f"{record.kind.name.lower()} {record.closing.name.lower()}")


def _frame(connection: _Connection, record: Record, at: int) -> list[Packet]:
    if record.is_cut:
        raise NotCapturableError("a cut frame")
    if record.pairing is Pairing.UNKNOWN:
        raise NotCapturableError("a response of which nobody knows what it answers")
    connection.has_spoken = True
    if record.flags & (Flag.SETTLED | Flag.INFORMED):
        connection.catch_up()
    else:
        connection.hold()
    return connection.sent(at, record.direction, _LENGTH.pack(len(record.frame)) + record.frame)


def _closing(connection: _Connection, record: Record, at: int) -> list[Packet]:
    first = record.direction
    if record.closing is Closing.RST:
        return connection.reset(at, first)
    return connection.finished(at, first) + connection.finished(at, _OTHER[first])


def _address(endpoint: Endpoint) -> SocketAddress:
    host, _, port = endpoint.rpartition(":")
    return SocketAddress(ipaddress.ip_address(host.strip("[]")).packed, int(port))
