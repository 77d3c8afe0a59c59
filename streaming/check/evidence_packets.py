"""Records → packets, which yield the same records again when they are read.

No byte of a frame is invented: the packets of a cut frame are cut as by a snap length, and lost bytes are
missing from the sequence numbers. What is not Kafka is continued with bytes that begin no request.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Sequence

from decoders.frame.cutting import blank, cut
from decoders.frame.record import Closing, Direction, Endpoint, Flag, Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.assembly import SHORTEST_FRAME
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import MAX_PAYLOAD, SyntheticConnection

_PREFIX = struct.Struct(">I")
_NO_API_KEY = b"\xff\xff"
_OTHER = {
    Direction.TO_BROKER: Direction.TO_CLIENT,
    Direction.TO_CLIENT: Direction.TO_BROKER,
}


def keepable(schemas: Schemas, record: Record) -> Record:
    """Return the record with its frame cut to what may be kept, such that cutting it again changes nothing.

    If cutting the cut frame would change it, its guarded fields are blanked instead and the rest is kept.
    """
    kept = cut(schemas, record)
    return kept if cut(schemas, kept).frame == kept.frame else blank(schemas, record)


def packets_of(records: Sequence[Record], acknowledgment_delay: int) -> list[Packet]:
    """Return the packets of several connections, whose records are in the order of their sequence.

    The delay, in nanoseconds, is that of the client's acknowledgments.
    """
    connections: dict[bytes, _Replica] = {}
    packets: list[Packet] = []
    foreign = {record.connection for record in records if record.kind is Kind.NOT_KAFKA}
    for record in records:
        if record.kind is Kind.GAP and record.connection in foreign:
            # What is not Kafka causes the gap.
            continue
        if record.connection not in connections:
            connections[record.connection] = _Replica(record, acknowledgment_delay)
        packets.extend(connections[record.connection].packets(record))
    return packets


class _Replica:
    """One connection that is synthesized again from its records."""

    def __init__(self, first: Record, acknowledgment_delay: int) -> None:
        self._connection = SyntheticConnection(
            _socket_address(first.client),
            _socket_address(first.server),
            acknowledgment_delay=acknowledgment_delay,
        )
        self._invalid_size_in = Direction.NONE
        """The direction that has lost its frame boundary by an invalid size, until its gap."""

    def packets(self, record: Record) -> Sequence[Packet]:
        """Return the packets of one record."""
        at, invalid_size_in = record.captured_at, self._invalid_size_in
        self._invalid_size_in = Direction.NONE
        match record.kind:
            case Kind.OPENED:
                return [] if Flag.MID_STREAM in record.flags else self._connection.opened(at)
            case Kind.CLOSED:
                return list(self._closed(record))
            case Kind.GAP:
                # The invalid size itself causes the gap.
                return [] if invalid_size_in is record.direction else self._lost(record)
            case Kind.INVALID_SIZE:
                return self._invalid_size(record)
            case Kind.NOT_KAFKA:
                return list(self._other_protocol(record))
            case _:
                return list(self._frame(record))

    def _closed(self, record: Record) -> Iterator[Packet]:
        first = record.direction or Direction.TO_BROKER
        if record.closing is Closing.RST:
            yield from self._connection.reset(record.captured_at, first)
        elif record.closing is Closing.FIN:
            yield from self._connection.finished(record.captured_at, first)
            yield from self._connection.finished(record.captured_at, _OTHER[first])

    def _lost(self, record: Record) -> Sequence[Packet]:
        """Lose a byte that the other side acknowledges, so that a reader knows of the loss."""
        self._connection.sent(record.captured_at, record.direction, b"\0")
        return self._connection.acknowledged(record.captured_at, _OTHER[record.direction])

    def _invalid_size(self, record: Record) -> Sequence[Packet]:
        size = record.true_length
        if size >= SHORTEST_FRAME:
            self._invalid_size_in = record.direction
        data = _PREFIX.pack(size) + bytes(size if size < SHORTEST_FRAME else 0)
        return self._connection.sent(record.captured_at, record.direction, data)

    def _other_protocol(self, record: Record) -> Iterator[Packet]:
        yield from self._connection.sent(record.captured_at, Direction.TO_BROKER, record.frame + _NO_API_KEY)
        if Flag.RESPONDED in record.flags:
            yield from self._connection.sent(record.captured_at, Direction.TO_CLIENT, b"\0")

    def _frame(self, record: Record) -> Iterator[Packet]:
        captured = _PREFIX.pack(record.true_length) + record.frame
        whole = captured.ljust(_PREFIX.size + record.true_length, b"\0")
        sent = self._connection.sent(record.captured_at, record.direction, whole)
        for start, packet in zip(range(0, len(whole), MAX_PAYLOAD), sent, strict=True):
            end = min(start + MAX_PAYLOAD, len(whole))
            missing = min(max(end - len(captured), 0), end - start)
            yield packet._replace(data=packet.data[: len(packet.data) - missing])


def _socket_address(endpoint: Endpoint) -> SocketAddress:
    host, _, port = endpoint.rpartition(":")
    return SocketAddress(ipaddress.ip_address(host.strip("[]")).packed, int(port))
