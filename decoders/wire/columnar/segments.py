"""Packets → TCP segments, as columns, and the socket pair of each segment: the key by which a flow is found.

Compiled code parses the headers of the link, IP and TCP layers that nearly all packets have. Other packets
are left to `decoders.wire.segment`, which parses more headers and returns a reason for each packet that it
skips.

Socket pairs are numbered by a hash table. Pairs are only added, never removed; the tracker begins a new table
when there are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.keyed_hash import HashKeys
from decoders.open_addressing import free_slots, slot_of_row
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import BSD_IP_FAMILIES, LinkType, Segment, Skipped, SocketAddress, locate_segment
from decoders.wire.stream import SEQUENCE_SPACE

SOCKET_WORDS = 5
"""int64 words that identify two sockets: two for each address, one for the IP version and both ports."""

_ETHERNET = int(LinkType.ETHERNET)
_LINUX_SLL, _LINUX_SLL2 = int(LinkType.LINUX_SLL), int(LinkType.LINUX_SLL2)
_BSD = (int(LinkType.NULL), int(LinkType.LOOP))
_BARE = tuple(map(int, (LinkType.RAW, LinkType.RAW_BSD, LinkType.RAW_OPENBSD, LinkType.IPV4, LinkType.IPV6)))
_BSD_IP_FAMILIES = tuple(sorted(BSD_IP_FAMILIES))
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN, _SERVICE_VLAN = 0x8100, 0x88A8
_PROTOCOL_TCP = 6
UNWATCHED = -1
NO_SEGMENT = -2
"""Instead of a pair's number: no port is watched, or the packet has no segment."""
_MIN_PAIRS = 512
_WORD = (1 << 64) - 1
"""The mask that makes an int64 word unsigned."""


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
    # The length is 0 in a packet too large for the field, which the network card splits or has merged.
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
        # Bytes that were not on the wire are not there, whatever the IP header says.
        datagram_end = min(datagram_end, max(wire_end, end))
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


class _PairTable(NamedTuple):
    """Slots for pairs, see `decoders.open_addressing`, and the socket words of each pair."""

    keys: HashKeys
    slots: NDArray[np.int64]
    words: NDArray[np.int64]

    @classmethod
    def empty(cls, keys: HashKeys, pairs: int) -> _PairTable:
        """Make a table for at least so many pairs, which take at most half of its slots."""
        slots = free_slots(max(pairs, _MIN_PAIRS))
        return cls(keys, slots, np.empty((len(slots) // 2, SOCKET_WORDS), np.int64))


class SocketPairs:
    """Numbers every socket pair with a watched port, from 0, in the order in which they appear."""

    def __init__(self, watched: NDArray[np.bool_], keys: HashKeys) -> None:
        """Watch the ports for which `watched`, of shape (65536,), is true."""
        self.count = 0
        self._watched, self._keys = watched, keys
        self._table = _PairTable.empty(keys, 0)

    def number(self, segments: SegmentBatch) -> NDArray[np.int64]:
        """Return each segment's pair (int64), UNWATCHED if no port is watched, NO_SEGMENT if not parsed."""
        pairs = np.empty(len(segments.parsed), np.int64)
        # Every segment may have a new pair.
        most = self.count + len(pairs)
        if most > len(self._table.words):
            larger = _PairTable.empty(self._keys, most)
            _enter(larger, self._table.words[: self.count])
            self._table = larger
        self.count = int(_number_pairs(self._table, self.count, segments, self._watched, pairs))
        return pairs

    def chosen(self, pairs: NDArray[np.int64]) -> SocketPairs:
        """Return these pairs, numbered anew in this order."""
        chosen = SocketPairs(self._watched, self._keys)
        chosen._table, chosen.count = _PairTable.empty(self._keys, len(pairs)), len(pairs)
        _enter(chosen._table, self._table.words[pairs])
        return chosen


def sockets_of(words: Sequence[int]) -> tuple[SocketAddress, SocketAddress]:
    """Return the lower and the upper socket of the words that `SegmentBatch` has for them."""
    lower_high, lower, upper_high, upper, last = words
    addresses: tuple[bytes, bytes]
    if last >> 32 == 4:
        addresses = lower.to_bytes(4), upper.to_bytes(4)
    else:
        addresses = (
            ((lower_high & _WORD) << 64 | lower & _WORD).to_bytes(16),
            ((upper_high & _WORD) << 64 | upper & _WORD).to_bytes(16),
        )
    return SocketAddress(addresses[0], last >> 16 & 0xFFFF), SocketAddress(addresses[1], last & 0xFFFF)


def words_of(one: SocketAddress, other: SocketAddress) -> NDArray[np.int64]:
    """Return the words that `SegmentBatch` has for two sockets, shape (SOCKET_WORDS,)."""
    (*lower, lower_port), (*upper, upper_port) = sorted((_order(one), _order(other)))
    version = 4 if len(one.address) == 4 else 6
    return np.array([*lower, *upper, version << 32 | lower_port << 16 | upper_port], np.int64)


def _order(socket: SocketAddress) -> tuple[int, int, int]:
    """Return the numbers by which the lower one of two sockets is found."""
    return (*halves(socket.address), socket.port)


def halves(address: bytes) -> tuple[int, int]:
    """Return the upper and the lower half of an address, as signed numbers if it is one of IPv6."""
    if len(address) == 4:
        return 0, int.from_bytes(address)
    return int.from_bytes(address[:8], signed=True), int.from_bytes(address[8:], signed=True)


@inlined
def _number_of(table: _PairTable, sockets: Any, following: int) -> Any:
    """Return the number of a pair; one that is new gets the following number."""
    slot = slot_of_row(table.words, table.slots, table.keys, sockets)
    if table.slots[slot] < 0:
        table.slots[slot] = following
        for index in range(SOCKET_WORDS):
            table.words[following, index] = sockets[index]
    return table.slots[slot]


@compiled(None)
def _enter(table: _PairTable, words: Any) -> None:
    """Add pairs, all different, to an empty table."""
    for pair in range(len(words)):
        _number_of(table, words[pair], pair)


@compiled(None)
def _number_pairs(table: _PairTable, count: int, segments: SegmentBatch, watched: Any, pairs: Any) -> Any:
    """Write the number of each row's pair to `pairs`, and return how many pairs the table has."""
    for row in range(len(pairs)):
        sockets = segments.sockets[row]
        if not segments.parsed[row]:
            pairs[row] = NO_SEGMENT
        elif not (watched[sockets[4] >> 16 & 0xFFFF] or watched[sockets[4] & 0xFFFF]):
            pairs[row] = UNWATCHED
        else:
            pairs[row] = _number_of(table, sockets, count)
            count += pairs[row] == count
    return count


def _put_segment(packets: PacketBatch, segments: SegmentBatch, row: int, segment: Segment, at: int) -> None:
    """Write a segment that compiled code does not parse; `at` is the offset of its payload in the packet."""
    segments.parsed[row] = True
    segments.sockets[row] = words_of(segment.source, segment.destination)
    segments.forward[row] = _order(segment.source) < _order(segment.destination)
    segments.sequences[row], segments.acknowledgments[row] = segment.sequence, segment.acknowledgment
    segments.flags[row], segments.missing[row] = segment.flags, segment.missing
    segments.starts[row] = packets.starts[row] + at
    segments.ends[row] = segments.starts[row] + len(segment.payload)


def read_others(packets: PacketBatch, segments: SegmentBatch) -> Counter[str]:
    """Parse the packets that compiled code does not. Those without a segment get sockets of zeros.

    Returns how many these are, by the reason why they are skipped.
    """
    others, skipped = np.flatnonzero(~segments.parsed), Counter[str]()
    segments.sockets[others] = 0
    is_empty = packets.lengths[others] == 0
    counts = dict.fromkeys(others[~is_empty].tolist(), 1)
    # A small file may unpack to millions of empty packets, which are alike on one link layer.
    empty = others[is_empty]
    _, first, alike = np.unique(packets.link_types[empty], return_index=True, return_counts=True)
    counts.update(zip(empty[first].tolist(), alike.tolist(), strict=True))
    for row, count in counts.items():
        found = locate_segment(packets.packet(row))
        if isinstance(found, Skipped):
            skipped[found.reason] += count
        else:
            _put_segment(packets, segments, row, *found)
    return skipped


def scalar_segment(packets: PacketBatch, segments: SegmentBatch, row: int) -> Segment:
    """Return the segment of a `parsed` row, equal to the one that `read_segment` returns for the packet."""
    lower, upper = sockets_of(segments.sockets[row].tolist())
    source, destination = (lower, upper) if segments.forward.item(row) else (upper, lower)
    return Segment(
        source,
        destination,
        segments.sequences.item(row),
        segments.acknowledgments.item(row),
        segments.flags.item(row),
        packets.data[segments.starts.item(row) : segments.ends.item(row)].tobytes(),
        segments.missing.item(row),
        packets.captured_at.item(row),
        packets.positions.item(row),
    )


@inlined
def distance(number: Any, origin: Any) -> Any:
    """Return how far a 32-bit sequence number is ahead of another; negative if it is behind."""
    ahead = (number - origin) & (SEQUENCE_SPACE - 1)
    return ahead - SEQUENCE_SPACE if ahead >= SEQUENCE_SPACE // 2 else ahead
