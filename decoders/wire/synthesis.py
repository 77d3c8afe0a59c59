"""The bytes of a connection → packets, as a capture beside the client would contain them.

Relays and tests make packets, so that the same code processes relayed and captured connections, without a
special rule. A client's segment acknowledges what the client is known to have received (`received`), and of
the rest only bytes that were sent to it at least `acknowledgment_delay` nanoseconds before.
"""

from __future__ import annotations

import struct
from collections import deque

from decoders.frame.record import Direction
from decoders.wire.segment import LinkType, Packet, Segment, SocketAddress, TcpFlag
from decoders.wire.stream import SEQUENCE_SPACE

RELAY_DELAY = 5_000_000_000
"""Nanoseconds after which a relay assumes that the client has received a response, if nothing shows it."""
MAX_PAYLOAD = 60_000
"""Bytes of the largest payload of a packet: with its headers it fits the length field of IP."""

_MAC_ADDRESSES = bytes.fromhex("020000000002 020000000001")
_ETHERTYPE_IPV4, _ETHERTYPE_IPV6 = b"\x08\x00", b"\x86\xdd"
_PROTOCOL_TCP, _HOP_LIMIT, _WINDOW = 6, 64, 0xFFFF
_MAXIMUM_SEGMENT_SIZE = bytes.fromhex("0204ffd7")
_WINDOW_SCALE_14 = bytes.fromhex("0103030e")


class SyntheticConnection:
    """Makes the Ethernet packets of one TCP connection over IPv4 or IPv6, according to the addresses.

    Times are in nanoseconds since the epoch and must not decrease. `initial_sequences` are the initial
    sequence numbers of the client and of the server.
    """

    def __init__(
        self,
        client: SocketAddress,
        server: SocketAddress,
        *,
        acknowledgment_delay: int = 0,
        initial_sequences: tuple[int, int] = (0, 0),
    ) -> None:
        self._addresses = {
            Direction.TO_BROKER: (client, server),
            Direction.TO_CLIENT: (server, client),
        }
        self._next = dict(zip(self._addresses, initial_sequences, strict=True))
        self._acknowledgment_delay = acknowledgment_delay
        self._read_by_client = initial_sequences[1]
        # Data that the client has not acknowledged: times, and the server's sequence numbers at these times.
        self._unread: deque[tuple[int, int]] = deque()

    def opened(self, at: int) -> list[Packet]:
        """Return the three packets of the handshake."""
        syn = self._packet(Direction.TO_BROKER, at, TcpFlag.SYN)
        syn_ack = self._packet(Direction.TO_CLIENT, at, TcpFlag.SYN | TcpFlag.ACK)
        self._unread.clear()
        self._read_by_client = self._next[Direction.TO_CLIENT]
        return [syn, syn_ack, self._packet(Direction.TO_BROKER, at, TcpFlag.ACK)]

    def sent(self, at: int, direction: Direction, data: bytes) -> list[Packet]:
        """Return the packets that carry bytes in one direction."""
        return [
            self._packet(direction, at, TcpFlag.PSH | TcpFlag.ACK, data[start : start + MAX_PAYLOAD])
            for start in range(0, len(data), MAX_PAYLOAD)
        ]

    def received(self) -> None:
        """Note that the client had received everything before it sent what follows."""
        if self._unread:
            self._read_by_client = self._unread[-1][1]
            self._unread.clear()

    def acknowledged(self, at: int, direction: Direction) -> list[Packet]:
        """Return a packet without payload, sent in a direction to acknowledge the other."""
        return [self._packet(direction, at, TcpFlag.ACK)]

    def finished(self, at: int, direction: Direction) -> list[Packet]:
        """Return the packet with which the sender of a direction closes it."""
        return [self._packet(direction, at, TcpFlag.FIN | TcpFlag.ACK)]

    def reset(self, at: int, direction: Direction) -> list[Packet]:
        """Return the packet with which the sender of a direction resets the connection."""
        return [self._packet(direction, at, TcpFlag.RST | TcpFlag.ACK)]

    def _packet(self, direction: Direction, at: int, flags: int, payload: bytes = b"") -> Packet:
        source, destination = self._addresses[direction]
        acknowledgment = self._acknowledgment(direction, at) if flags & TcpFlag.ACK else 0
        segment = Segment(
            source, destination, self._next[direction], acknowledgment, flags, payload, 0, at, 0
        )
        self._next[direction] += len(payload) + bool(flags & (TcpFlag.SYN | TcpFlag.FIN))
        if direction is Direction.TO_CLIENT:
            self._unread.append((at, self._next[direction]))
        return packet_of(segment)

    def _acknowledgment(self, direction: Direction, at: int) -> int:
        if direction is Direction.TO_CLIENT:
            return self._next[Direction.TO_BROKER]
        while self._unread and self._unread[0][0] + self._acknowledgment_delay <= at:
            self._read_by_client = self._unread.popleft()[1]
        return self._read_by_client


def packet_of(segment: Segment) -> Packet:
    """Return the Ethernet packet that carries a segment. Missing bytes are not in it."""
    data = _MAC_ADDRESSES + _ip(segment.source, segment.destination, _tcp(segment))
    return Packet(segment.captured_at, LinkType.ETHERNET, data, len(data), segment.position)


def _ip(source: SocketAddress, destination: SocketAddress, tcp: bytes) -> bytes:
    """Prepend an ethertype and an IP header to TCP bytes."""
    addresses = source.address + destination.address
    if len(source.address) == 16:
        header = struct.pack(">IHBB", 6 << 28, len(tcp), _PROTOCOL_TCP, _HOP_LIMIT)
        return _ETHERTYPE_IPV6 + header + addresses + tcp
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, _HOP_LIMIT, _PROTOCOL_TCP, 0)
    checksum = _checksum(header + addresses)
    return _ETHERTYPE_IPV4 + header[:-2] + checksum + addresses + tcp


def _tcp(segment: Segment) -> bytes:
    options = _MAXIMUM_SEGMENT_SIZE + _WINDOW_SCALE_14 if segment.flags & TcpFlag.SYN else b""
    header = struct.pack(
        ">HHIIBBH",
        segment.source.port,
        segment.destination.port,
        segment.sequence % SEQUENCE_SPACE,
        segment.acknowledgment % SEQUENCE_SPACE,
        (20 + len(options)) // 4 << 4,
        segment.flags,
        _WINDOW,
    )
    rest = bytes(2) + options + segment.payload
    length = len(header) + 2 + len(rest)
    addresses = segment.source.address + segment.destination.address
    pseudo_header = addresses + struct.pack(">II", length, _PROTOCOL_TCP)
    return header + _checksum(pseudo_header + header + bytes(2) + rest) + rest


def _checksum(data: bytes) -> bytes:
    """Compute the Internet checksum (RFC 1071): sums modulo 65535 are sums in ones' complement."""
    padded = data + bytes(len(data) % 2)
    return (0xFFFF - int.from_bytes(padded) % 0xFFFF).to_bytes(2)
