"""What is not Kafka from its first byte on is recorded at its end."""

from __future__ import annotations

import pytest

from decoders.frame.record import Direction, Flag, Kind, Record
from decoders.wire.frame_detector import OtherProtocol, is_broken_length, is_gssapi_token, protocol_of
from decoders.wire.segment import Packet
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.equality import assert_equal, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    Event,
    kinds,
    metadata,
    of_kind,
    packets_of,
    prefixed,
    produce,
)

HTTP = b"GET /secret HTTP/1.1\r\n\r\n"
TLS = bytes.fromhex("16030100a5010000a10303")
RDP = bytes.fromhex("0300002f2ae00000")
GSSAPI = prefixed(b"\x60" + bytes(300))


def ended(events: list[Event], by: Direction = TO_CLIENT, segment: int = 60_000) -> list[Packet]:
    """Packets of events, and of the FINs of both sides."""
    packets = packets_of(events, close=False, segment=segment)
    connection = SyntheticConnection(CLIENT, SERVER)
    connection.opened(0)
    for direction, data in events:
        connection.sent(0, direction, data)
    at = packets[-1].captured_at + SECOND
    other = TO_BROKER if by is TO_CLIENT else TO_CLIENT
    return placed([*packets, *connection.finished(at, by), *connection.finished(at, other)])


def recorded(packets: list[Packet], ports: frozenset[int] = frozenset({9092})) -> list[Record]:
    """The records NOT_KAFKA that both trackers make."""
    return of_kind(assert_equal(packets, range(len(packets)), ports=ports), Kind.NOT_KAFKA)


@pytest.mark.parametrize(
    "beginning",
    [HTTP, TLS, RDP, bytes(64), b"\xff" * 4, b"\x7f\xff\xff\xff", b"SSH-", prefixed(bytes(5))],
    ids=lambda beginning: beginning[:4].hex(),
)
@pytest.mark.parametrize("segment", [1, 100])
@pytest.mark.parametrize("by", [TO_CLIENT, TO_BROKER])
def test_what_begins_as_no_request_is_recorded_by_its_first_bytes(
    beginning: bytes, segment: int, by: Direction
) -> None:
    (record,) = recorded(ended([(TO_BROKER, beginning)], by, segment=segment))
    assert (record.frame, record.true_length, record.direction) == (beginning[:4], 4, TO_BROKER)
    assert (record.captured_at, record.flags) == (SECOND, Flag.NAMED_PORT)


def test_it_precedes_the_closing_and_follows_the_gap() -> None:
    records = assert_equal(ended([(TO_BROKER, HTTP), (TO_BROKER, HTTP)]))
    assert kinds(records) == [Kind.OPENED, Kind.GAP, Kind.NOT_KAFKA, Kind.CLOSED]


def test_without_ports_no_port_is_named() -> None:
    (record,) = recorded(ended([(TO_BROKER, HTTP)]), frozenset())
    assert record.flags is Flag.NONE


def test_a_reset_ends_a_connection_too() -> None:
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0) + connection.sent(SECOND, TO_BROKER, HTTP)
    assert len(recorded(placed(packets + connection.reset(2 * SECOND, TO_CLIENT)))) == 1


RESPONDED = {
    "captured": ended([(TO_BROKER, HTTP), (TO_CLIENT, b"HTTP/1.1 200 OK\r\n\r\n")]),
    "long after": ended([(TO_BROKER, TLS), (TO_BROKER, TLS), (TO_BROKER, TLS), (TO_CLIENT, TLS)]),
    "not captured": [
        packet
        for packet in ended([(TO_BROKER, TLS), (TO_CLIENT, TLS), (TO_BROKER, TLS)])
        if packet.captured_at != 2 * SECOND
    ],
}


@pytest.mark.parametrize("packets", RESPONDED.values(), ids=RESPONDED)
def test_it_says_whether_the_server_responded(packets: list[Packet]) -> None:
    (record,) = recorded(packets)
    assert record.flags == Flag.NAMED_PORT | Flag.RESPONDED


BENIGN = {
    "the server sends first": ended([(TO_CLIENT, b"SSH-2.0-x\r\n"), (TO_BROKER, b"SSH-2.0-y\r\n")]),
    "joined midway": ended([(TO_BROKER, HTTP)])[HANDSHAKE:],
    "the beginning was not captured": [
        packet for packet in ended([(TO_BROKER, HTTP), (TO_BROKER, HTTP)]) if packet.captured_at != SECOND
    ],
    "no byte": ended([(TO_BROKER, b"")]),
    "three bytes": ended([(TO_BROKER, b"GET")]),
    "a raw GSSAPI token": ended([(TO_BROKER, GSSAPI)]),
    "a request": ended([(TO_BROKER, prefixed(metadata(1)))]),
    "a request that is cut off": ended([(TO_BROKER, prefixed(produce(1, acks=1))[:12])]),
    "still open": placed(packets_of([(TO_BROKER, HTTP)], close=False)),
}


@pytest.mark.parametrize("packets", BENIGN.values(), ids=BENIGN)
def test_nothing_is_recorded_where_the_first_bytes_show_nothing(packets: list[Packet]) -> None:
    assert recorded(packets) == []


def test_a_server_that_answers_a_lost_client_hello_is_not_accused_of_an_impossible_length() -> None:
    server_hello = bytes.fromhex("160303007a02000076")
    sent = ended([(TO_BROKER, TLS), (TO_CLIENT, server_hello), (TO_CLIENT, bytes(200))])
    left = [packet for packet in sent if TLS not in packet.data]
    assert len(left) == len(sent) - 1
    records = assert_equal(placed(left), ports=frozenset({9092}))
    assert set(kinds(records)) == {Kind.OPENED, Kind.GAP, Kind.CLOSED}


def test_protocols_are_named_by_four_bytes() -> None:
    named = {protocol_of(each) for each in (b"POST", b"PUT ", b"PRI ", b"OPTI")}
    assert named == {OtherProtocol.HTTP}
    assert protocol_of(b"\r\n\r\n") is protocol_of(b"PROX") is OtherProtocol.PROXY
    assert protocol_of(TLS[:4]) is OtherProtocol.TLS
    assert protocol_of(b"SSH-") is OtherProtocol.SSH
    assert protocol_of(bytes(4)) is protocol_of(b"\x16\x03\x04\x00") is OtherProtocol.NOISE


def test_lengths_of_a_broken_encoder() -> None:
    sizes = (-(1 << 31), -2, -1, 0, 3, 4, 1 << 30, (1 << 31) - 1)
    assert list(filter(is_broken_length, sizes)) == [-(1 << 31), -1, 0, 3, (1 << 31) - 1]


def test_a_gssapi_token_has_the_length_of_a_token() -> None:
    assert is_gssapi_token(GSSAPI)
    assert not is_gssapi_token(b"\x16\x03\x01\x02\x60")
    assert not is_gssapi_token(GSSAPI[:4])
