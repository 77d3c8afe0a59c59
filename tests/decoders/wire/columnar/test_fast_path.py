"""Which packets the fast path processes, and which it leaves to the scalar tracker."""

from __future__ import annotations

import tracemalloc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.record import Closing, Kind, Pairing, Record
from decoders.wire import pairing
from decoders.wire.columnar import tracker as columnar_tracker
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.segment import Packet, Segment, SocketAddress
from tests.decoders.wire.columnar.equality import assert_equal, packets_between, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    HANDSHAKE,
    SCHEMAS,
    TO_BROKER,
    TO_CLIENT,
    Event,
    exchanges,
    metadata,
    metadata_response,
    new_columnar_tracker,
    of_kind,
    prefixed,
    produce,
    produce_response,
    request,
    response,
    to_broker,
    to_client,
)
from tests.decoders.wire.links import LINKS, carried
from tests.examples import examples

cuts = st.lists(st.integers(0, 10_000), max_size=6)


def track(packets: list[Packet]) -> list[Record]:
    tracker = new_columnar_tracker()
    batches = [tracker.feed(PacketBatch.of(packets)), tracker.finish()]
    return [record for batch in batches for record in batch.records()]


def pipelined(correlation_ids: range) -> list[Event]:
    """Requests in one segment, and their responses."""
    at_once = b"".join(prefixed(metadata(number)) for number in correlation_ids)
    return [(TO_BROKER, at_once), *to_client(*map(metadata_response, correlation_ids))]


def large_response(correlation_id: int) -> bytes:
    topics = [{"name": f"a-topic-with-a-long-name-{number}"} for number in range(3_000)]
    return response("Metadata", 9, correlation_id, brokers=[], topics=topics)


OPENING = exchanges(2)


@pytest.mark.parametrize("segment", [11, 1460, 60_000])
def test_only_opening_and_closing_take_the_slow_path(slow_path: list[Segment], segment: int) -> None:
    packets = packets_between(exchanges(100), segment=segment)
    records = track(packets)
    assert len([record for record in records if record.pairing is Pairing.MATCHED]) == 101
    assert not slow_path


@pytest.mark.parametrize(
    "event",
    [
        to_broker(produce(50, acks=0), produce(51, acks=1)) + to_client(produce_response(51)),
        pipelined(range(50, 70)),
        pipelined(range(50, 500)),
        to_broker(metadata(50)) + to_client(large_response(50)),
        to_broker(metadata(50))
        + to_client(metadata_response(50))
        + to_broker(metadata(50))
        + to_client(metadata_response(50)),
    ],
    ids=["produce", "pipelined", "many-in-flight", "large", "an-id-again"],
)
def test_ordinary_traffic_takes_the_fast_path(slow_path: list[Segment], event: list[Event]) -> None:
    packets = placed(packets_between(OPENING + event + exchanges(4)[2:], segment=1460))
    track(packets)
    assert not slow_path
    assert_equal(packets, range(0, len(packets), 3))


@pytest.mark.parametrize("snap_length", [120, 1000])
def test_frames_cut_by_the_snap_length_take_the_fast_path(slow_path: list[Segment], snap_length: int) -> None:
    event = to_broker(metadata(50)) + to_client(large_response(50))
    packets = [
        packet._replace(data=packet.data[:snap_length])
        for packet in placed(packets_between(OPENING + event + exchanges(4)[2:], segment=1460))
    ]
    records = track(packets)
    assert any(record.is_cut for record in records)
    assert not slow_path
    assert_equal(packets, range(0, len(packets), 3))


def test_who_keeps_the_memory_almost_full_pushes_nobody_else_off_the_fast_path(
    slow_path: list[Segment],
) -> None:
    """Each beginning of a connection might then be too much, but it is not."""
    addresses = [SocketAddress(bytes([10, 0, 1, number]), 40_000) for number in range(20)]
    begun = prefixed(produce(2, acks=1, records="A" * 20_000))[:8_000]
    packets = packets_between([*exchanges(1), (TO_BROKER, begun)], addresses[0], close=False, segment=1460)
    ordinary = packets_between(exchanges(40), close=False)
    packets, ordinary = packets + ordinary[:HANDSHAKE], ordinary[HANDSHAKE:]
    for number, address in enumerate(addresses[1:]):
        packets += packets_between(exchanges(2), address, close=False)[HANDSHAKE:][:1]
        packets += ordinary[8 * number : 8 * number + 8]
    assert_equal(placed(packets), max_held=16_000)
    slow_path.clear()
    tracker = new_columnar_tracker(max_held=16_000)
    records = list(tracker.feed(PacketBatch.of(placed(packets))).records())
    assert not any(record.kind is Kind.CLOSED for record in records)
    assert sum(CLIENT in (segment.source, segment.destination) for segment in slow_path) <= 2


def test_another_protocol_takes_the_fast_path(slow_path: list[Segment]) -> None:
    hello = b"\x16\3\1\0\x60" + bytes(0x60)
    events_of_burst = [(TO_BROKER, hello), (TO_CLIENT, hello), *((TO_CLIENT, bytes(500)) for _ in range(50))]
    packets = placed(packets_between(events_of_burst, segment=400))
    track(packets)
    # The first bytes of both sides, and the end, which shows what the protocol was.
    assert len(slow_path) <= 2
    assert_equal(packets, range(0, len(packets), 3))


def test_a_connection_joined_mid_stream_reaches_the_fast_path(slow_path: list[Segment]) -> None:
    packets = placed(packets_between(exchanges(100))[10:])
    track(packets)
    assert len(slow_path) < 5
    assert_equal(packets)


def test_a_connection_returns_to_the_fast_path_after_a_hole_in_a_frame(slow_path: list[Segment]) -> None:
    packets = placed(
        packets_between(OPENING + to_broker(metadata(50)) + to_client(large_response(50)), segment=1460)
    )
    del packets[len(packets) // 2]
    track(packets)
    # Those behind the hole are held until the response is acknowledged.
    assert 0 < len(slow_path) < len(packets)
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
def test_unusual_traffic_takes_the_slow_path(slow_path: list[Segment], event: list[Event]) -> None:
    packets = placed(packets_between(OPENING + event + exchanges(4)[2:]))
    track(packets)
    assert slow_path
    assert_equal(packets, range(0, len(packets), 5))


def test_behind_lost_bytes_of_a_kafka_connection_nothing_counts_as_tls() -> None:
    """Its frames were completed on the fast path alone. A TLS record follows the lost bytes."""
    record = b"\x17\3\3\0\x1e" + bytes(30)
    sent = packets_between([*OPENING, (TO_BROKER, b"lost"), (TO_BROKER, record), *exchanges(4)[2:]])
    packets = placed(each for each in sent if not each.data.endswith(b"lost"))
    records = assert_equal(packets)
    assert [each.frame for each in of_kind(records, Kind.REQUEST)][-2:] == [metadata(3), metadata(4)]


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


@pytest.mark.parametrize("link", [link for link in LINKS if link != "raw IPv6"])
def test_every_link_layer_takes_the_fast_path(slow_path: list[Segment], link: str) -> None:
    packets = [carried(packet, link) for packet in packets_between(OPENING)]
    assert len(assert_equal(placed(packets))) == 2 + 2 * 3
    slow_path.clear()
    track(packets)
    assert not slow_path


def test_packets_without_a_segment_of_a_watched_port_are_counted() -> None:
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
@examples(50)
def test_any_number_of_requests_in_flight(
    bursts: list[tuple[int, bool]], repeating: bool, cut: list[int]
) -> None:
    """Bursts of requests, in one segment or many; half of those in flight get a response in between."""
    events, in_flight, number = [*OPENING], deque[int](), 50
    for burst, at_once in bursts:
        ids = [50 + each % 40 if repeating else each for each in range(number, number + burst)]
        number += burst
        in_flight += ids
        requests = to_broker(*map(metadata, ids))
        events += [(TO_BROKER, b"".join(data for _, data in requests))] if at_once else requests
        events += to_client(*(metadata_response(in_flight.popleft()) for _ in range(len(in_flight) // 2)))
    assert_equal(placed(packets_between(events)), cut)


def test_both_trackers_discard_the_same_requests_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "MAX_IN_FLIGHT", 40)
    monkeypatch.setattr(columnar_tracker, "MAX_IN_FLIGHT", 40)
    events = OPENING + pipelined(range(50, 91)) + exchanges(4)[2:]
    records = assert_equal(placed(packets_between(events)))
    pairings = {record.pairing for record in records if record.kind is Kind.RESPONSE}
    assert pairings == {Pairing.MATCHED, Pairing.UNKNOWN}


def test_a_burst_of_requests_in_flight_takes_no_memory_for_long() -> None:
    """Of twenty connections that stay open, each had a thousand requests in flight once."""
    tracker, events = new_columnar_tracker(), OPENING + pipelined(range(50, 1050))

    def burst(client: int) -> None:
        sent = packets_between(events, SocketAddress(CLIENT.address, client), close=False)
        for packets in (sent, *[[]] * 10):
            tracker.feed(PacketBatch.of(packets))

    tracemalloc.start()
    try:
        grown = []
        for client in range(1, 21):
            burst(client)
            grown.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert grown[-1] - grown[3] < 200_000
