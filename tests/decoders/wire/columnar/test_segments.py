"""Parsed segments equal those of `read_segment`, and socket pairs keep their numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decoders.keyed_hash import HashKeys
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import (
    NO_SEGMENT,
    UNWATCHED,
    SocketPairs,
    read_segments,
    scalar_segment,
    sockets_of,
    words_of,
)
from decoders.wire.segment import Packet, SocketAddress, read_segment
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.conversation import TO_BROKER, TO_CLIENT
from tests.decoders.wire.links import LINKS, carried
from tests.examples import examples

some = examples(100)
links = st.sampled_from(list(LINKS))
addresses = st.sampled_from([b"\x0a\0\0\1", b"\x0a\0\0\2", bytes(15) + b"\1", b"\xfe" + bytes(15)])
sockets = st.builds(SocketAddress, addresses, st.sampled_from([9092, 40_000, 40_001]))
flips = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 255)), max_size=3)


def new_pairs(watched: NDArray[np.bool_] | None = None) -> SocketPairs:
    """Pairs of the watched ports, or of all."""
    return SocketPairs(np.full(1 << 16, True) if watched is None else watched, HashKeys.of(b""))


def between(client: int, port: int) -> SyntheticConnection:
    """A connection of the client with this number to a port of one server."""
    address = bytes([10, 1, client >> 8, client & 255])
    return SyntheticConnection(SocketAddress(address, 40_000), SocketAddress(b"\x0a\0\0\2", port))


def packets_between(one: SocketAddress, other: SocketAddress) -> list[Packet]:
    connection = SyntheticConnection(one, other)
    return [
        *connection.opened(1),
        *connection.sent(2, TO_BROKER, b"request"),
        *connection.sent(3, TO_CLIENT, b"response"),
        *connection.reset(4, TO_BROKER),
    ]


@given(sockets, sockets, links, flips, st.integers(0, 120))
@some
def test_a_parsed_segment_equals_the_scalar_one(
    one: SocketAddress, other: SocketAddress, link: str, flips: list[tuple[int, int]], snap_length: int
) -> None:
    if len(one.address) != len(other.address):
        other = SocketAddress(one.address, other.port)
    packets = []
    for packet in (carried(each, link) for each in packets_between(one, other)):
        data = bytearray(packet.data)
        for place, value in flips:
            data[place % len(data)] = value
        packets.append(packet._replace(data=bytes(data[:snap_length])))
    batch = PacketBatch.of(packets)
    segments = read_segments(batch)
    for row, packet in enumerate(packets):
        if not segments.parsed[row]:
            continue
        assert scalar_segment(batch, segments, row) == read_segment(packet)


def test_an_ordinary_packet_is_parsed() -> None:
    packets = packets_between(SocketAddress(bytes(16), 1), SocketAddress(bytes(15) + b"\1", 9092))
    assert read_segments(PacketBatch.of(packets)).parsed.all()


@given(st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=300), st.lists(st.integers(0, 300)))
@some
def test_a_pair_has_one_number_in_both_directions(sent: list[tuple[int, bool]], cuts: list[int]) -> None:
    packets = [
        packet
        for client, from_client in sent
        for packet in between(client, 9092).sent(0, TO_BROKER if from_client else TO_CLIENT, b"data")
    ]
    pairs = new_pairs(np.arange(1 << 16) == 9092)
    numbers: list[int] = []
    for start, end in pairwise([0, *sorted(min(cut, len(packets)) for cut in cuts), len(packets)]):
        numbers += pairs.number(read_segments(PacketBatch.of(packets[start:end]))).tolist()
    order = list(dict.fromkeys(client for client, _ in sent))
    assert numbers == [order.index(client) for client, _ in sent]


def test_thousands_of_pairs_have_different_numbers() -> None:
    packets = [packet for port in range(1, 6_000) for packet in between(1, port).sent(0, TO_BROKER, b"data")]
    pairs = new_pairs()
    segments = read_segments(PacketBatch.of(packets))
    assert pairs.number(segments).tolist() == pairs.number(segments).tolist() == list(range(5_999))


def test_other_ports_and_other_packets_have_no_pair() -> None:
    packets = packets_between(SocketAddress(bytes(4), 1), SocketAddress(bytes(4), 2))
    packets[0] = packets[0]._replace(data=b"")
    pairs = new_pairs(np.zeros(1 << 16, np.bool_))
    assert pairs.number(read_segments(PacketBatch.of(packets))).tolist() == [NO_SEGMENT] + [UNWATCHED] * 5


_HALVES = st.sampled_from([bytes(4), b"\x0a\0\0\1", b"\xff\0\0\1"])
_PORTS = st.integers(0, 0xFFFF)


@given(st.sampled_from([1, 4]), st.lists(_HALVES, min_size=8, max_size=8), _PORTS, _PORTS, st.booleans())
@some
def test_two_sockets_have_the_pair_of_their_segments(
    parts: int, halves: list[bytes], port: int, other_port: int, swapped: bool
) -> None:
    """Addresses of IPv4 and IPv6, whose words may be negative numbers."""
    one = SocketAddress(b"".join(halves[:parts]), port)
    other = SocketAddress(b"".join(halves[4 : 4 + parts]), other_port)
    segments = read_segments(PacketBatch.of(SyntheticConnection(one, other).opened(0)))
    pairs = new_pairs()
    assert pairs.number(segments).tolist() == [0, 0, 0]
    assert words_of(*((other, one) if swapped else (one, other))).tolist() == segments.sockets[0].tolist()
    lower, upper = sockets_of(segments.sockets[0].tolist())
    assert ((lower, upper) if segments.forward[0] else (upper, lower)) == (one, other)


def test_nobody_without_the_secret_knows_where_a_pair_is() -> None:
    segments = read_segments(
        PacketBatch.of(packets_between(SocketAddress(bytes(4), 1), SocketAddress(bytes(4), 2)))
    )
    tables = [SocketPairs(np.full(1 << 16, True), HashKeys.of(secret)) for secret in (b"one", b"another")]
    for pairs in tables:
        pairs.number(segments)
    one, other = (np.flatnonzero(pairs._table.slots >= 0).tolist() for pairs in tables)
    assert one != other
