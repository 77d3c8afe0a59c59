"""Which traffic the flows follow on their own, and what they leave to the scalar tracker."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.record import Closing, Kind, Pairing, Record
from decoders.wire import pairing
from decoders.wire.columnar import tracker as columnar_tracker
from decoders.wire.columnar.in_flight import MIN_SLOTS
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.packet import Packet
from decoders.wire.segment import LinkType, Segment
from decoders.wire.tracker import Tracker
from tests.decoders.wire.columnar.equality import assert_equal, packets_between, placed
from tests.decoders.wire.conversation import (
    SCHEMAS,
    TO_BROKER,
    TO_CLIENT,
    Event,
    exchanges,
    metadata,
    metadata_response,
    prefixed,
    produce,
    produce_response,
    request,
    response,
    to_broker,
    to_client,
)

cuts = st.lists(st.integers(0, 10_000), max_size=6)


@pytest.fixture
def unusual(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The segments that the scalar tracker is given."""
    given: list[Segment] = []
    process = Tracker.process

    def noting(self: Tracker, segment: Segment) -> list[Record]:
        given.append(segment)
        return process(self, segment)

    monkeypatch.setattr(Tracker, "process", noting)
    return given


def follow(packets: list[Packet]) -> list[Record]:
    followed = ColumnarTracker(SCHEMAS, ports={9092}, run=7)
    batches = [followed.feed(PacketBatch.of(packets)), followed.finish()]
    return [record for batch in batches for record in batch.records()]


def pipelined(correlation_ids: range) -> list[Event]:
    """Requests in one segment, and their answers."""
    asked_at_once = b"".join(prefixed(metadata(number)) for number in correlation_ids)
    return [(TO_BROKER, asked_at_once), *to_client(*map(metadata_response, correlation_ids))]


def large_answer(correlation_id: int) -> bytes:
    topics = [{"name": f"a-topic-with-a-long-name-{number}"} for number in range(3_000)]
    return response("Metadata", 9, correlation_id, brokers=[], topics=topics)


OPENING = exchanges(2)
CEREMONY = 7
"""The handshake's three packets, the first request, and the three of the end."""


@pytest.mark.parametrize("segment", [11, 1460, 60_000])
def test_only_opening_and_closing_are_unusual(unusual: list[Segment], segment: int) -> None:
    packets = packets_between(exchanges(100), segment=segment)
    records = follow(packets)
    assert len([record for record in records if record.pairing is Pairing.MATCHED]) == 101
    assert len(unusual) <= CEREMONY


@pytest.mark.parametrize(
    "event",
    [
        to_broker(produce(50, acks=0), produce(51, acks=1)) + to_client(produce_response(51)),
        pipelined(range(50, 70)),
        pipelined(range(50, 500)),
        to_broker(metadata(50)) + to_client(large_answer(50)),
        to_broker(metadata(50))
        + to_client(metadata_response(50))
        + to_broker(metadata(50))
        + to_client(metadata_response(50)),
    ],
    ids=["produce", "pipelined", "many-wait", "large", "an-id-again"],
)
def test_calm_traffic(unusual: list[Segment], event: list[Event]) -> None:
    packets = placed(packets_between(OPENING + event + exchanges(4)[2:], segment=1460))
    follow(packets)
    assert len(unusual) <= CEREMONY
    assert_equal(packets, range(0, len(packets), 3))


@pytest.mark.parametrize("snap_length", [120, 1000])
def test_frames_that_are_cut_are_calm(unusual: list[Segment], snap_length: int) -> None:
    event = to_broker(metadata(50)) + to_client(large_answer(50))
    packets = [
        packet._replace(data=packet.data[:snap_length])
        for packet in placed(packets_between(OPENING + event + exchanges(4)[2:], segment=1460))
    ]
    records = follow(packets)
    assert any(record.is_cut for record in records)
    assert len(unusual) <= CEREMONY
    assert_equal(packets, range(0, len(packets), 3))


def test_what_is_not_kafka_is_left_alone(unusual: list[Segment]) -> None:
    hello = b"\x16\3\1\0\x60" + bytes(0x60)
    said = [(TO_BROKER, hello), (TO_CLIENT, hello), *((TO_CLIENT, bytes(500)) for _ in range(50))]
    packets = placed(packets_between(said, segment=400))
    follow(packets)
    assert len(unusual) <= CEREMONY + 1
    assert_equal(packets, range(0, len(packets), 3))


def test_a_connection_that_was_joined_midway_becomes_calm(unusual: list[Segment]) -> None:
    packets = placed(packets_between(exchanges(100))[10:])
    follow(packets)
    assert len(unusual) < 3 * CEREMONY
    assert_equal(packets)


def test_a_hole_in_a_frame_is_calm_once_it_is_certain(unusual: list[Segment]) -> None:
    packets = placed(
        packets_between(OPENING + to_broker(metadata(50)) + to_client(large_answer(50)), segment=1460)
    )
    del packets[len(packets) // 2]
    follow(packets)
    # Those behind the hole wait until the answer is acknowledged.
    assert CEREMONY < len(unusual) < len(packets)
    assert_equal(packets, range(0, len(packets), 3))


@pytest.mark.parametrize(
    "event",
    [
        to_broker(request("SaslHandshake", 0, 50, mechanism="PLAIN"))
        + to_client(response("SaslHandshake", 0, 50))
        + to_broker(b"\0user\0password")
        + to_client(b""),
        to_client(metadata_response(50)),
        to_broker(metadata(50)) + to_client(metadata_response(51)),
        to_broker(b"tiny"),
        to_broker(b""),
        [(TO_CLIENT, b"\xff\xff\xff\xff")],
        to_broker(produce(50, acks=0)[:14]) + to_client(produce_response(50)),
    ],
    ids=["sasl", "unowed", "foreign", "short", "empty", "negative", "torn-produce"],
)
def test_what_is_unusual_is_told_all_the_same(unusual: list[Segment], event: list[Event]) -> None:
    packets = placed(packets_between(OPENING + event + exchanges(4)[2:]))
    follow(packets)
    assert len(unusual) > CEREMONY
    assert_equal(packets, range(0, len(packets), 5))


@pytest.mark.parametrize("version", range(3, 15))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks_are_read_in_every_version(version: int, acks: int) -> None:
    names = (None, "", "transaction", "t" * 200)
    bodies = [{"acks": acks, "timeoutMs": 1, "transactionalId": name} for name in names]
    frames = [
        write_request(SCHEMAS, "Produce", version, 60 + number, client_id, body)
        for number, body in enumerate(bodies)
        for client_id in (None, "", "client")
    ]
    packets = packets_between(OPENING + to_broker(*frames) + exchanges(4)[2:])
    records = assert_equal(placed(packets))
    assert len([record for record in records if record.kind is Kind.REQUEST]) > len(frames)


@pytest.mark.parametrize(
    "link", [LinkType.RAW, LinkType.LINUX_SLL, LinkType.LINUX_SLL2, LinkType.NULL, LinkType.LOOP]
)
def test_other_link_layers(unusual: list[Segment], link: LinkType) -> None:
    headers = {
        LinkType.RAW: b"",
        LinkType.LINUX_SLL: bytes(14) + b"\x08\x00",
        LinkType.LINUX_SLL2: b"\x08\x00" + bytes(18),
        LinkType.NULL: b"\2\0\0\0",
        LinkType.LOOP: b"\0\0\0\2",
    }
    packets = [
        packet._replace(data=headers[link] + packet.data[14:], link_type=link)
        for packet in packets_between(OPENING)
    ]
    assert len(assert_equal(placed(packets))) == 2 + 2 * 3
    unusual.clear()
    follow(packets)
    assert len(unusual) == CEREMONY


def test_what_is_no_segment_of_a_watched_port_is_counted() -> None:
    packets = packets_between(OPENING)
    tagged = [packet._replace(data=packet.data[:12] + b"\x81\0\0\7" + packet.data[12:]) for packet in packets]
    noise = [
        packet._replace(data=data)
        for packet in packets
        for data in (
            packet.data[:20],
            packet.data[:12] + b"\x08\x06" + bytes(28),
            packet.data[:23] + b"\x11" + bytes(40),
        )
    ]
    records = assert_equal(placed(tagged + noise), [5, 20])
    assert len(records) == 2 + 2 * 3
    assert assert_equal(placed(packets), ports={9093}) == []


def test_a_socket_pair_that_is_used_again_is_another_connection() -> None:
    packets = packets_between(OPENING, close=False)
    again = packets_between(OPENING, start=1_000)
    again = [packet._replace(captured_at=packet.captured_at + 10**12) for packet in again]
    records = assert_equal(placed(packets[:-3] + again), [9])
    assert records[-1].closing is Closing.FIN


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=12), st.booleans(), cuts)
@settings(max_examples=50, deadline=None)
def test_however_many_requests_wait(bursts: list[tuple[int, bool]], repeating: bool, cut: list[int]) -> None:
    """In bursts, one segment or many, of which half is answered before the next."""
    events, waiting, number = [*OPENING], deque[int](), 50
    for burst, at_once in bursts:
        ids = [50 + each % 40 if repeating else each for each in range(number, number + burst)]
        number += burst
        waiting += ids
        said = [(TO_BROKER, prefixed(metadata(each))) for each in ids]
        events += [(TO_BROKER, b"".join(data for _, data in said))] if at_once else said
        events += to_client(*(metadata_response(waiting.popleft()) for _ in range(len(waiting) // 2)))
    assert_equal(placed(packets_between(events)), cut)


def test_a_lane_gives_up_the_requests_that_the_scalar_tracker_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "MAX_IN_FLIGHT", 40)
    monkeypatch.setattr(columnar_tracker, "MAX_IN_FLIGHT", 40)
    events = OPENING + pipelined(range(50, 91)) + exchanges(4)[2:]
    records = assert_equal(placed(packets_between(events)))
    pairings = {record.pairing for record in records if record.kind is Kind.RESPONSE}
    assert pairings == {Pairing.MATCHED, Pairing.UNKNOWN}


def test_rings_of_requests_that_wait_become_smaller_again() -> None:
    followed = ColumnarTracker(SCHEMAS, ports={9092}, run=7)
    burst = packets_between(OPENING + pipelined(range(50, 1050)), close=False)
    followed.feed(PacketBatch.of(burst))
    sizes = followed._flow_table.flows.states["ring_size"]
    assert sizes.max() > 1000
    for _ in range(10):
        followed.feed(PacketBatch.of([]))
    assert sizes.max() == MIN_SLOTS


def test_each_connections_ledger_is_right_too() -> None:
    packets = packets_between(OPENING, close=False)
    followed, scalar = ColumnarTracker(SCHEMAS, ports={9092}, run=7), Tracker(SCHEMAS, ports={9092}, run=7)
    followed.feed(PacketBatch.of(packets))
    for packet in packets:
        scalar.feed(packet)
    (one,), (other,) = list(followed.connections), list(scalar.connections)
    followed.finish()
    scalar.finish()
    assert one.ledger == other.ledger
    assert one.ledger.framed > 0
