"""Packets → TCP segments, as columns: the headers of the link, IP and TCP layers.

The compiled code parses the headers that nearly all packets have. Other packets are left to
`decoders.wire.segment`, which parses more headers and returns a reason for each packet that it skips.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import LinkType

SOCKET_WORDS = 5
"""int64 words that identify two sockets: two for each address, one for the IP version and both ports."""

_ETHERNET = int(LinkType.ETHERNET)
_LINUX_SLL, _LINUX_SLL2 = int(LinkType.LINUX_SLL), int(LinkType.LINUX_SLL2)
_BSD = (int(LinkType.NULL), int(LinkType.LOOP))
_BARE = tuple(map(int, (LinkType.RAW, LinkType.RAW_BSD, LinkType.RAW_OPENBSD, LinkType.IPV4, LinkType.IPV6)))
_BSD_IP_FAMILIES = (2, 10, 24, 28, 30)
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN, _SERVICE_VLAN = 0x8100, 0x88A8
_PROTOCOL_TCP = 6


class SegmentBatch(NamedTuple):
    """The segments of a batch of packets, one row per packet. Only `parsed` rows are valid.

    `sockets` has shape (n, SOCKET_WORDS) and identifies both sockets, the lower one first in both directions;
    `forward` is true if the lower one sent the segment. The payload is `data[starts[i] : ends[i]]` of the
    batch of packets. The other columns mean what the fields of `Segment` mean.
    """

    parsed: NDArray[np.bool_]
    forward: NDArray[np.bool_]
    sockets: NDArray[np.int64]
    sequences: NDArray[np.int64]
    acknowledgments: NDArray[np.int64]
    flags: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    missing: NDArray[np.int64]


def read_segments(packets: PacketBatch) -> SegmentBatch:
    """Parse the headers of every packet."""
    count = packets.size
    segments = SegmentBatch(
        np.zeros(count, np.bool_),
        np.empty(count, np.bool_),
        np.empty((count, SOCKET_WORDS), np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.uint8),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    _read(packets, segments)
    return segments


@inlined
def _number(data: Any, at: int, size: int) -> Any:
    """Read a big-endian number. Eight bytes yield the int64 with the same bits."""
    value = np.int64(0)
    for index in range(at, at + size):
        value = value << 8 | np.int64(data[index])
    return value


@inlined
def _ip_header(data: Any, start: int, end: int, link_type: int) -> Any:
    """Return the offset of the IP header, -1 if it is not found."""
    if link_type in _BARE:
        return start
    if end - start < 24:
        return -1
    if link_type in _BSD:
        family = _number(data, start, 4)
        # The family is in the byte order of the capturing host.
        family = family >> 24 if family & 0xFFFFFF == 0 else family
        return start + 4 if family in _BSD_IP_FAMILIES else -1
    if link_type == _LINUX_SLL2:
        return start + 20 if _number(data, start, 2) in (_IPV4, _IPV6) else -1
    if link_type not in (_ETHERNET, _LINUX_SLL):
        return -1
    at = start + (12 if link_type == _ETHERNET else 14)
    while at + 2 <= end and _number(data, at, 2) in (_VLAN, _SERVICE_VLAN):
        at += 4
    return at + 2 if at + 2 <= end and _number(data, at, 2) in (_IPV4, _IPV6) else -1


@inlined
def _ipv4(data: Any, at: int, end: int, wire_end: int) -> Any:
    """Return the offsets of the TCP header and of the datagram's end, -1 if it is not plain TCP over IPv4."""
    if at + 20 > end or _number(data, at + 6, 2) & 0x3FFF or data[at + 9] != _PROTOCOL_TCP:
        return -1, -1
    header_length = (np.int64(data[at]) & 0x0F) * 4
    total_length = _number(data, at + 2, 2)
    if header_length < 20:
        return -1, -1
    # The length is 0 if a packet that the network card splits or has merged is too large for the field.
    return at + header_length, at + total_length if total_length else wire_end


@inlined
def _ipv6(data: Any, at: int, end: int, wire_end: int) -> Any:
    if at + 40 > end or data[at + 6] != _PROTOCOL_TCP:
        return -1, -1
    payload_length = _number(data, at + 4, 2)
    return at + 40, at + 40 + payload_length if payload_length else wire_end


@inlined
def _name_sockets(data: Any, ip: int, tcp: int, sockets: Any) -> Any:
    """Write the socket words, the lower socket's first, and return whether the lower one is the sender."""
    version = np.int64(data[ip]) >> 4
    source_high, target_high = np.int64(0), np.int64(0)
    if version == 4:
        source_low, target_low = _number(data, ip + 12, 4), _number(data, ip + 16, 4)
    else:
        source_high, source_low = _number(data, ip + 8, 8), _number(data, ip + 16, 8)
        target_high, target_low = _number(data, ip + 24, 8), _number(data, ip + 32, 8)
    source_port, target_port = _number(data, tcp, 2), _number(data, tcp + 2, 2)
    forward = source_port < target_port
    if source_low != target_low:
        forward = source_low < target_low
    if source_high != target_high:
        forward = source_high < target_high
    if forward:
        sockets[0], sockets[1], sockets[2], sockets[3] = source_high, source_low, target_high, target_low
        sockets[4] = version << 32 | source_port << 16 | target_port
    else:
        sockets[0], sockets[1], sockets[2], sockets[3] = target_high, target_low, source_high, source_low
        sockets[4] = version << 32 | target_port << 16 | source_port
    return forward


@compiled(None)
def _read(packets: PacketBatch, segments: SegmentBatch) -> None:
    data = packets.data
    for row in range(len(packets.starts)):
        start = packets.starts[row]
        end = start + packets.lengths[row]
        ip = _ip_header(data, start, end, packets.link_types[row])
        if ip < 0 or ip >= end:
            continue
        version = np.int64(data[ip]) >> 4
        wire_end = start + packets.original_lengths[row]
        if version == 4:
            tcp, datagram_end = _ipv4(data, ip, end, wire_end)
        elif version == 6:
            tcp, datagram_end = _ipv6(data, ip, end, wire_end)
        else:
            continue
        if tcp < 0 or tcp + 20 > end:
            continue
        header_length = (np.int64(data[tcp + 12]) >> 4) * 4
        payload = tcp + header_length
        if header_length < 20 or payload > datagram_end:
            continue
        # Bytes after the datagram's end are padding of the link layer.
        payload_end = max(payload, min(datagram_end, end))
        segments.parsed[row] = True
        segments.forward[row] = _name_sockets(data, ip, tcp, segments.sockets[row])
        segments.sequences[row] = _number(data, tcp + 4, 4)
        segments.acknowledgments[row] = _number(data, tcp + 8, 4)
        segments.flags[row] = data[tcp + 13]
        segments.starts[row] = payload
        segments.ends[row] = payload_end
        segments.missing[row] = datagram_end - payload_end
