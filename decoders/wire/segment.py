"""A captured packet, and its link, IP and TCP layers: the TCP segment in it, or the reason why it is skipped.

Checksums are not verified: a capture on the sending host sees packets before the network card fills in their
checksums.
"""

from __future__ import annotations

import enum
import struct
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, Self

from decoders.frame.record import Endpoint


class Packet(NamedTuple):
    """One captured packet.

    `captured_at` is in nanoseconds since the epoch. `link_type` is a LINKTYPE_ number of the pcap format.
    `data` holds the captured bytes, `original_length` is the number of bytes on the wire. `position` is the
    byte offset of the packet's record in its file, 0 for a live source.
    """

    captured_at: int
    link_type: int
    data: bytes
    original_length: int
    position: int = 0


class LinkType(enum.IntEnum):
    """The supported link layers (https://www.tcpdump.org/linktypes.html)."""

    NULL = 0
    ETHERNET = 1
    RAW_BSD = 12
    RAW_OPENBSD = 14
    RAW = 101
    LOOP = 108
    LINUX_SLL = 113
    IPV4 = 228
    IPV6 = 229
    LINUX_SLL2 = 276


class SocketAddress(NamedTuple):
    """A packed IPv4 (4 bytes) or IPv6 (16 bytes) address, and a TCP port."""

    address: bytes
    port: int

    @classmethod
    def named(cls, name: tuple[str, int]) -> Self:
        """Return the address that a socket gives of one of its ends; IPv4 inside IPv6 is IPv4."""
        address = ip_address(name[0].partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return cls((mapped or address).packed, name[1])

    @property
    def endpoint(self) -> Endpoint:
        """The address and port as text."""
        return Endpoint.of(self.address, self.port)


class TcpFlag(enum.IntEnum):
    """The control bits of a TCP header (RFC 9293 section 3.1) that are used here."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    PSH = 0x08
    ACK = 0x10


class Segment(NamedTuple):
    """One TCP segment.

    `missing` is the number of payload bytes that followed on the wire but were not captured (snap length).
    `sequence` and `acknowledgment` are the 32-bit numbers of the header, `flags` its TcpFlag bits.
    `captured_at` and `position` are those of the packet.
    """

    source: SocketAddress
    destination: SocketAddress
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    missing: int
    captured_at: int
    position: int


class Skipped(NamedTuple):
    """A packet without a TCP segment that can be parsed. `reason` is a label of metrics."""

    reason: str


class _SkippedError(Exception):
    """The reason why a packet is skipped."""


_ETHERTYPE_IPV4, _ETHERTYPE_IPV6 = 0x0800, 0x86DD
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
BSD_IP_FAMILIES = frozenset({2, 10, 24, 28, 30})
"""AF_INET, and AF_INET6 as Linux, NetBSD, FreeBSD and macOS number it."""
_IPV4 = struct.Struct(">BxHxxHxBxx4s4s")
_IPV6 = struct.Struct(">4xHBx16s16s")
_TCP = struct.Struct(">HHIIBBxxxxxx")
_SHORTEST_TCP_HEADER = 20
_PROTOCOL_TCP, _PROTOCOL_UDP, _PROTOCOL_FRAGMENT, _PROTOCOL_AUTHENTICATION = 6, 17, 44, 51
_TUNNELS = {4: "ip-in-ip", 41: "ip-in-ip", 47: "gre"}
_VXLAN_PORT = 4789
EXTENSION_HEADERS = frozenset({0, 43, _PROTOCOL_FRAGMENT, _PROTOCOL_AUTHENTICATION, 60, 135})
"""The IPv6 extension headers that TCP may follow: the others are hop-by-hop, routing, destination options and
mobility. All but a fragment's contain their own length."""


def read_segment(packet: Packet) -> Segment | Skipped:
    """Return the TCP segment of a packet, or why it is skipped. Never raises."""
    found = locate_segment(packet)
    return found if isinstance(found, Skipped) else found[0]


def locate_segment(packet: Packet) -> tuple[Segment, int] | Skipped:
    """Return the TCP segment of a packet and the offset of its payload, or why it is skipped."""
    try:
        return _tcp(packet, _ip(packet, _network_layer(packet)))
    except _SkippedError as reason:
        return Skipped(str(reason))
    except (struct.error, IndexError):
        return Skipped("headers-cut")


def _network_layer(packet: Packet) -> int:
    """Return the offset of the IP header."""
    match packet.link_type:
        case LinkType.ETHERNET:
            return _after_ethertype(packet.data, 12)
        case LinkType.LINUX_SLL:
            return _after_ethertype(packet.data, 14)
        case LinkType.LINUX_SLL2:
            tagged = _ethertype(packet.data, 0) in _VLAN_TAGS
            return _after_ethertype(packet.data, 22) if tagged else _after_ethertype(packet.data, 0) + 18
        case LinkType.NULL | LinkType.LOOP:
            return _after_family(packet.data)
        case LinkType.RAW | LinkType.RAW_BSD | LinkType.RAW_OPENBSD | LinkType.IPV4 | LinkType.IPV6:
            return 0
    raise _SkippedError("link-layer")


def _ethertype(data: bytes, at: int) -> int:
    return int(struct.unpack_from(">H", data, at)[0])


def _after_ethertype(data: bytes, at: int) -> int:
    while (ethertype := _ethertype(data, at)) in _VLAN_TAGS:
        at += 4
    if ethertype not in (_ETHERTYPE_IPV4, _ETHERTYPE_IPV6):
        raise _SkippedError("not-ip")
    return at + 2


def _after_family(data: bytes) -> int:
    """Return the offset behind the address family, which is in the byte order of the capturing host."""
    if not BSD_IP_FAMILIES.intersection(struct.unpack_from("<I", data) + struct.unpack_from(">I", data)):
        raise _SkippedError("not-ip")
    return 4


class _Datagram(NamedTuple):
    """An IP datagram: its addresses, and the offsets in the packet of its TCP header and of its end."""

    source: bytes
    destination: bytes
    start: int
    end: int


def _ip(packet: Packet, at: int) -> _Datagram:
    version = packet.data[at] >> 4
    if version == 4:
        return _ipv4(packet, at)
    if version == 6:
        return _ipv6(packet, at)
    raise _SkippedError("not-ip")


def _ipv4(packet: Packet, at: int) -> _Datagram:
    first, total_length, fragment, protocol, source, destination = _IPV4.unpack_from(packet.data, at)
    # Every fragment but the first has an offset; every fragment but the last has the flag "more fragments".
    if fragment & 0x3FFF:
        raise _SkippedError("fragment")
    header_length = (first & 0x0F) * 4
    if header_length < _IPV4.size:
        raise _SkippedError("malformed")
    _require_tcp(packet.data, protocol, at + header_length)
    # The length is 0 in a packet too large for the field, which the network card splits or has merged.
    end = at + total_length if total_length else packet.original_length
    return _Datagram(source, destination, at + header_length, end)


def _ipv6(packet: Packet, at: int) -> _Datagram:
    payload_length, protocol, source, destination = _IPV6.unpack_from(packet.data, at)
    start = at + _IPV6.size
    end = start + payload_length if payload_length else packet.original_length
    while protocol in EXTENSION_HEADERS:
        next_protocol, length = packet.data[start], packet.data[start + 1]
        if protocol == _PROTOCOL_FRAGMENT:
            _require_atomic(packet.data, start)
            start += 8
        elif protocol == _PROTOCOL_AUTHENTICATION:
            # Its length counts 4-byte units after the first 8 bytes, others count 8-byte units.
            start += 4 * (length + 2)
        else:
            start += 8 * (length + 1)
        protocol = next_protocol
    _require_tcp(packet.data, protocol, start)
    return _Datagram(source, destination, start, end)


def _require_atomic(data: bytes, fragment: int) -> None:
    """Raise the reason if a fragment is not the only one of its packet (RFC 6946): receivers take that."""
    # The two reserved bits before the flag "more fragments" count for nothing.
    if struct.unpack_from(">H", data, fragment + 2)[0] & 0xFFF9:
        raise _SkippedError("fragment")


def _require_tcp(data: bytes, protocol: int, start: int) -> None:
    """Raise the reason if the protocol of an IP header is not TCP."""
    if protocol == _PROTOCOL_TCP:
        return
    if protocol == _PROTOCOL_UDP and struct.unpack_from(">H", data, start + 2)[0] == _VXLAN_PORT:
        raise _SkippedError("vxlan")
    raise _SkippedError(_TUNNELS.get(protocol, "not-tcp"))


def _tcp(packet: Packet, datagram: _Datagram) -> tuple[Segment, int]:
    source_port, destination_port, sequence, acknowledgment, offset, flags = _TCP.unpack_from(
        packet.data, datagram.start
    )
    header_length = (offset >> 4) * 4
    start = datagram.start + header_length
    # A mirror may have shortened the packet. A forged one must not claim bytes that nobody sent.
    end = min(datagram.end, max(packet.original_length, len(packet.data)))
    if header_length < _SHORTEST_TCP_HEADER or start > end:
        raise _SkippedError("malformed")
    # Bytes after the datagram's end are padding of the link layer.
    payload = packet.data[start:end]
    segment = Segment(
        SocketAddress(datagram.source, source_port),
        SocketAddress(datagram.destination, destination_port),
        sequence,
        acknowledgment,
        flags,
        payload,
        end - start - len(payload),
        packet.captured_at,
        packet.position,
    )
    return segment, start
