"""Synthetic packets are valid: checksums, sequence numbers, and a relay's acknowledgments."""

from __future__ import annotations

import pytest

from decoders.wire.segment import Packet, Segment, SocketAddress, TcpFlag, read_segment
from decoders.wire.synthesis import MAX_PAYLOAD, RELAY_DELAY, SyntheticConnection
from tests.decoders.wire.conversation import CLIENT, SECOND, SERVER, TO_BROKER, TO_CLIENT

V6_CLIENT = SocketAddress(bytes(15) + b"\x01", 40_000)
V6_SERVER = SocketAddress(bytes(15) + b"\x02", 9092)


def read(packets: list[Packet]) -> list[Segment]:
    segments = [read_segment(packet) for packet in packets]
    assert all(isinstance(segment, Segment) for segment in segments)
    return segments  # type: ignore[return-value]


def ones_complement_sum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2]) for at in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_syn_and_fin_take_a_sequence_number() -> None:
    connection = SyntheticConnection(CLIENT, SERVER, initial_sequences=(100, 500))
    packets = connection.opened(0) + connection.sent(1, TO_BROKER, b"ask")
    packets += connection.sent(2, TO_CLIENT, b"result") + connection.finished(3, TO_BROKER)
    packets += connection.finished(4, TO_CLIENT)
    fields = [(part.sequence, part.acknowledgment, part.flags & 7, part.payload) for part in read(packets)]
    assert fields == [
        (100, 0, TcpFlag.SYN, b""),
        (500, 101, TcpFlag.SYN, b""),
        (101, 501, 0, b""),
        (101, 501, 0, b"ask"),
        (501, 104, 0, b"result"),
        (104, 507, TcpFlag.FIN, b""),
        (507, 105, TcpFlag.FIN, b""),
    ]


@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (V6_CLIENT, V6_SERVER)])
@pytest.mark.parametrize("payload", [b"even", b"odd", b"\xff\xff", bytes(range(256))])
def test_checksums_are_right(client: SocketAddress, server: SocketAddress, payload: bytes) -> None:
    connection = SyntheticConnection(client, server)
    for packet in connection.opened(0) + connection.sent(1, TO_BROKER, payload):
        ip = packet.data[14:]
        size = 20 if len(client.address) == 4 else 40
        if size == 20:
            assert ones_complement_sum(ip[:20]) == 0xFFFF
        addresses, tcp = ip[size - 2 * len(client.address) : size], ip[size:]
        pseudo_header = addresses + len(tcp).to_bytes(4) + (6).to_bytes(4)
        assert ones_complement_sum(pseudo_header + tcp) == 0xFFFF


def test_large_sends_are_split_and_sequence_numbers_wrap() -> None:
    connection = SyntheticConnection(CLIENT, SERVER, initial_sequences=((1 << 32) - 10, 0))
    connection.opened(0)
    first, second = read(connection.sent(1, TO_BROKER, bytes(MAX_PAYLOAD + 1)))
    assert (first.sequence, len(first.payload)) == ((1 << 32) - 9, MAX_PAYLOAD)
    assert (second.sequence, len(second.payload)) == (MAX_PAYLOAD - 9, 1)


def test_a_client_behind_a_relay_acknowledges_with_a_delay() -> None:
    connection = SyntheticConnection(CLIENT, SERVER, acknowledgment_delay=RELAY_DELAY)
    connection.opened(0)
    connection.sent(10 * SECOND, TO_CLIENT, b"first")
    connection.sent(12 * SECOND, TO_CLIENT, b"second")

    def acknowledged(at: int) -> int:
        return read(connection.sent(at, TO_BROKER, b"?"))[0].acknowledgment

    assert acknowledged(15 * SECOND - 1) == 1
    assert acknowledged(15 * SECOND) == 6
    assert acknowledged(17 * SECOND) == 12
