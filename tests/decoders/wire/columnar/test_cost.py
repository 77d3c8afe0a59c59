"""What packets cost that strangers send to stall a feeder: each is bounded, however much is held already."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from decoders.frame.record import Kind, Record
from decoders.retention import KEPT_FOR
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.flows import Flows, slots_of_ring
from decoders.wire.columnar.frames import FrameBatchBuilder
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import SegmentBatch, read_segments
from decoders.wire.connection import Connection
from decoders.wire.eviction import IDLE_INTERVAL, closed_at_once, max_half_open
from decoders.wire.pairing import COMPARED
from decoders.wire.segment import (
    LinkType,
    Packet,
    Segment,
    Skipped,
    SocketAddress,
    TcpFlag,
    locate_segment,
)
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.tracker import Tracker
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import assert_equal, packets_between, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    exchanges,
    metadata,
    metadata_response,
    new_columnar_tracker,
    of_kind,
    prefixed,
    request,
)

SLOW = 400
"""Packets for the scalar tracker."""


def handshake(correlation_id: int) -> bytes:
    return prefixed(request("SaslHandshake", 1, correlation_id, mechanism="PLAIN"))


def pipelining(in_flight: int, slow: int = SLOW, then: int = 0) -> list[Packet]:
    """A client that pipelines, then sends what only the scalar tracker processes, and then pipelines on."""
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0)
    for direction, data in exchanges(2):
        packets += connection.sent(0, direction, data)
    for number in range(100, 100 + in_flight):
        packets += connection.sent(0, TO_BROKER, prefixed(metadata(number)))
    for number in range(100_000, 100_000 + slow):
        packets += connection.sent(0, TO_BROKER, handshake(number))
    for number in range(200_000, 200_000 + then):
        packets += connection.sent(0, TO_BROKER, prefixed(metadata(number)))
    return placed(packets)


def falling(in_flight: int) -> list[Packet]:
    """A client whose correlation IDs fall and one of whose requests is not captured, with all responses."""
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0)
    for direction, data in exchanges(2):
        packets += connection.sent(0, direction, data)
    numbers = range(99 + in_flight, 99, -1)
    for number in numbers:
        packets += connection.sent(0, TO_BROKER, prefixed(metadata(number)))
    connection.sent(0, TO_BROKER, prefixed(metadata(50)))
    packets += connection.sent(0, TO_BROKER, prefixed(metadata(49)))
    for number in (*numbers, 50, 49):
        packets += connection.sent(SECOND, TO_CLIENT, prefixed(metadata_response(number)))
    return placed(packets)


def assembling(size: int) -> list[Packet]:
    """A client that sends most of a large frame, and then its segments in pairs that are captured swapped."""
    connection = SyntheticConnection(CLIENT, SERVER)
    packets = connection.opened(0)
    for direction, data in exchanges(2):
        packets += connection.sent(0, direction, data)
    frame = prefixed(metadata(100).ljust(2 * size, b"x"))
    for begin in range(0, size, 50_000):
        packets += connection.sent(0, TO_BROKER, frame[begin : begin + 50_000])
    for _ in range(SLOW // 2):
        first, second = (connection.sent(0, TO_BROKER, b"x" * 100) for _ in range(2))
        packets += second + first
    return placed(packets)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests in flight are copied, each time."""
    counts: list[int] = []

    def counted(begin: int, size: int, first: int, count: int) -> NDArray[np.int64]:
        counts.append(count)
        return slots_of_ring(begin, size, first, count)

    monkeypatch.setattr("decoders.wire.columnar.offload.slots_of_ring", counted)
    return counts


def test_requests_in_flight_are_not_copied_for_each_packet(copied: list[int]) -> None:
    tracker = new_columnar_tracker()
    tracker.feed(PacketBatch.of(pipelining(9_000)))
    assert 9_000 < sum(copied) < 100 * SLOW


@pytest.mark.parametrize(("in_flight", "processed"), [(20, 1), (9_000, 1 + 100)])
def test_few_requests_in_flight_return_to_the_fast_path_at_once(
    in_flight: int, processed: int, slow_path: list[Segment]
) -> None:
    """Many are copied only once as many packets were processed as take as long."""
    new_columnar_tracker().feed(PacketBatch.of(pipelining(in_flight, slow=1, then=100)))
    assert len(slow_path) == processed


def test_frames_under_assembly_are_not_copied_for_each_packet() -> None:
    tracker = new_columnar_tracker()
    batch = tracker.feed(PacketBatch.of(assembling(1 << 22)))
    assert len(batch.data) < 20 * (1 << 22)


def begun(connections: int) -> list[Packet]:
    """Connections that have spoken, each with a frame under assembly."""
    packets: list[Packet] = []
    for number in range(connections):
        client = SocketAddress(bytes([20, 1, number >> 8, number & 255]), 5_000)
        connection = SyntheticConnection(client, SERVER)
        packets += connection.opened(0)
        for direction, data in exchanges(1):
            packets += connection.sent(0, direction, data)
        packets += connection.sent(0, TO_BROKER, prefixed(metadata(2))[:30])
    return placed(packets)


def later(packets: list[Packet], delay: int) -> list[Packet]:
    return [packet._replace(captured_at=packet.captured_at + delay) for packet in packets]


def flood(syns: int) -> list[Packet]:
    """SYNs of ever new sockets."""
    sockets = [SocketAddress(bytes([20, 0, number >> 8, number & 255]), 5_000) for number in range(syns)]
    return placed(SyntheticConnection(each, SERVER).opened(0)[0] for each in sockets)


MIXED = {
    "pipelined": pipelining(200),
    "few IDs fall": falling(COMPARED - 1),
    "many IDs fall": falling(COMPARED + 1),
    "assembled": assembling(1 << 20),
    "SYNs": flood(1_000),
}


@pytest.fixture
def adopted(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The records OPENED of lazy connections that the scalar tracker has to know."""
    records: list[Record] = []
    adopt = Tracker.adopt

    def noted(self: Tracker, client: SocketAddress, server: SocketAddress, *said: Any) -> Connection:
        records.append(said[1])
        return adopt(self, client, server, *said)

    monkeypatch.setattr(Tracker, "adopt", noted)
    return records


def test_syns_beyond_the_limit_are_left_to_compiled_code(
    slow_path: list[Segment], adopted: list[Record]
) -> None:
    most, syns = 2_000, 20_000
    tracker = new_columnar_tracker(max_connections=most)
    records = [*tracker.feed(PacketBatch.of(flood(syns))).records()]
    assert len(of_kind(records, Kind.CLOSED)) > syns - most
    assert len(slow_path) <= (syns - max_half_open(most)) / closed_at_once(most) + 1
    assert not adopted


CLOCK = SyntheticConnection(CLIENT, SERVER).opened(0)
MANY = 1_000


def test_idle_connections_are_closed_in_columns(slow_path: list[Segment], adopted: list[Record]) -> None:
    """They are closed in parts, so that no packet has to wait for all of them."""
    at_once = closed_at_once(128 * 400)
    packets = begun(MANY)
    for number in range(4):
        packets += later(CLOCK[:1], KEPT_FOR + 1 + number * IDLE_INTERVAL)
    tracker = new_columnar_tracker(max_connections=128 * 400)
    tracker.feed(PacketBatch.of(packets[: -len(CLOCK) - 1]))
    closed = []
    for packet in packets[-4:]:
        closed.append(len(of_kind([*tracker.feed(PacketBatch.of([packet])).records()], Kind.CLOSED)))
    assert closed == [at_once, at_once, MANY - 2 * at_once, 0]
    assert not slow_path
    assert not adopted
    assert_equal(placed(packets), (3_000, len(packets) - 2), max_connections=128 * 400)


def test_connections_that_hold_most_are_evicted_in_columns(adopted: list[Record]) -> None:
    packets = [*begun(MANY), *later(pipelining(0)[:-SLOW], SECOND)]
    most = 30 * MANY
    tracker = new_columnar_tracker(max_held=most)
    records = [*tracker.feed(PacketBatch.of(packets)).records()]
    assert tracker.evicted["heavy"] == len(of_kind(records, Kind.CLOSED)) > MANY // 3
    assert len(adopted) <= 2
    assert_equal(placed(packets), (3_000,), max_held=most)


def test_connections_that_spoke_are_evicted_in_columns(adopted: list[Record]) -> None:
    most = MANY // 2
    tracker = new_columnar_tracker(max_connections=most)
    tracker.feed(PacketBatch.of(begun(MANY)))
    assert tracker.evicted["speaking"] >= MANY - most
    assert not adopted
    assert_equal(begun(MANY), (3_000,), max_connections=most)


def test_openings_that_are_repeated_are_left_to_compiled_code(slow_path: list[Segment]) -> None:
    syn, syn_ack, ack = SyntheticConnection(CLIENT, SERVER).opened(0)
    packets = placed([syn, syn, syn, syn_ack, syn_ack, syn_ack, ack, syn_ack])
    new_columnar_tracker().feed(PacketBatch.of(packets))
    assert not slow_path
    assert_equal(packets, (2, 4))


def extended(packet: Packet) -> Packet:
    """Return a packet of IPv6 with a header of destination options, which compiled code does not parse."""
    data = packet.data
    length = int.from_bytes(data[18:20]) + 8
    options = data[20:21] + bytes(7)
    return packet._replace(
        data=data[:18] + length.to_bytes(2) + b"\x3c" + data[21:54] + options + data[54:],
        original_length=packet.original_length + 8,
    )


def with_extensions() -> list[Packet]:
    """Two clients whose packets have extension headers, all or every third one, and three that come later."""
    server = SocketAddress(bytes([*bytes(15), 2]), 9092)
    packets = list[Packet]()
    for number, every in enumerate([1, 3, 0, 0, 0]):
        client = SocketAddress(bytes([*bytes(14), 1, number]), 40_000)
        sent = packets_between(exchanges(3), client, server, close=number > 0)
        packets += [extended(each) if every and at % every == 0 else each for at, each in enumerate(sent)]
    return placed(packets)


def test_an_extension_header_sends_nobody_to_the_slow_path(slow_path: list[Segment]) -> None:
    packets = with_extensions()
    new_columnar_tracker().feed(PacketBatch.of(packets))
    assert not slow_path
    records = assert_equal(packets, range(0, len(packets), 7))
    assert len(of_kind(records, Kind.REQUEST)) == 5 * 4


def _connections() -> int:
    return sum(type(each) is Connection for each in gc.get_objects())


@pytest.mark.parametrize("encrypted", [False, True])
def test_connections_that_are_evicted_need_no_garbage_collector(encrypted: bool) -> None:
    """Each request without a SYN begins one, which Python frees at once if no references form a cycle."""
    key_log = KeyLog() if encrypted else None
    tracker = new_columnar_tracker(max_connections=100, key_log=key_log)
    writer = TlsWriter(*SUITES[0])
    begun = next(data for _, data in writer.handshake()) if encrypted else prefixed(metadata(1))
    gc.collect()
    others = _connections()
    gc.disable()
    try:
        for number in range(1_000):
            client = SocketAddress(bytes([20, 0, number >> 8, number & 255]), 5_000)
            connection = SyntheticConnection(client, SERVER)
            packets = connection.opened(0) if encrypted else []
            packets += connection.sent(0, TO_BROKER, begun)
            tracker.feed(PacketBatch.of(placed(packets)))
        left = _connections() - others
    finally:
        gc.enable()
    assert tracker.evicted.total() > 800
    assert left <= 100


def test_empty_packets_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 kB of zstd unpack to 33 million of them."""
    parsed: list[Packet] = []

    def noted(packet: Packet) -> tuple[Segment, int] | Skipped:
        parsed.append(packet)
        return locate_segment(packet)

    monkeypatch.setattr("decoders.wire.columnar.segments.locate_segment", noted)
    (syn,) = flood(1)
    links = (LinkType.ETHERNET, LinkType.RAW, LinkType.LINUX_SLL2, 147)
    empty = [syn._replace(data=b"", link_type=link) for link in links for _ in range(500)]
    packets = placed([syn, *empty, syn._replace(data=syn.data[:20])])
    new_columnar_tracker().feed(PacketBatch.of(packets))
    assert len(parsed) == len(links) + 1
    assert_equal(packets, (700, 1_600))


def test_flows_are_made_ready_for_syns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of packets without a segment hold whatever the memory held before."""

    def read(packets: PacketBatch) -> SegmentBatch:
        segments = read_segments(packets)
        segments.flags[~segments.parsed] = TcpFlag.SYN
        return segments

    monkeypatch.setattr("decoders.wire.columnar.tracker.read_segments", read)
    made: list[int] = []
    monkeypatch.setattr(Flows, "make_ready", lambda _, count: made.append(count))
    (syn,) = flood(1)
    new_columnar_tracker().feed(PacketBatch.of([syn._replace(data=syn.data[:20])] * 100))
    assert made == [0]


def test_numbering_pairs_anew_sends_nobody_to_the_slow_path(
    slow_path: list[Segment], adopted: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,000 SYNs the latest 480 or more are open; so is a connection from before, which then goes on."""
    monkeypatch.setattr("decoders.wire.columnar.tracker.MAX_PAIRS", 1_000)
    tracker = new_columnar_tracker(max_connections=1_000)
    begun = packets_between(exchanges(1), SocketAddress(CLIENT.address, 1), close=False)
    others = packets_between(exchanges(1), SocketAddress(CLIENT.address, 2))
    tracker.feed(PacketBatch.of(packets_between(exchanges(1)) + begun[:-1]))
    tracker.feed(PacketBatch.of(flood(2_000)))
    evictions = len(slow_path)
    tracker.feed(PacketBatch.of(begun[-1:]))
    assert tracker._socket_pairs.count <= max_half_open(1_000) + 2
    tracker.feed(PacketBatch.of(others))
    assert len(slow_path) <= evictions + 1
    assert not adopted


def unfinished(connections: int, size: int) -> tuple[list[Packet], list[Packet]]:
    """Beginnings of large frames, and the next packets of every hundredth of these connections."""
    beginnings, more = list[Packet](), list[Packet]()
    frame = prefixed(metadata(1).ljust(3 * size, b"x"))
    for number in range(connections):
        client = SocketAddress(bytes([20, 0, number >> 8, number & 255]), 5_000)
        connection = SyntheticConnection(client, SERVER)
        beginnings += connection.opened(0) + connection.sent(0, TO_BROKER, frame[:size])
        if number % 100 == 0:
            more += connection.sent(0, TO_BROKER, frame[size : 2 * size])
            more += connection.sent(0, TO_BROKER, frame[2 * size :])
    return placed(beginnings), placed(more)


def test_a_batch_copies_no_frames_that_its_packets_do_not_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    beginnings, more = unfinished(3_000, 100)
    tracker = new_columnar_tracker()
    tracker.feed(PacketBatch.of(beginnings))
    tracker.feed(PacketBatch.of([]))
    copied: list[int] = []
    put = FrameBatchBuilder.put

    def noted(self: FrameBatchBuilder, content: bytes | NDArray[np.uint8], capacity: int = 0) -> int:
        copied.append(len(content))
        return put(self, content, capacity)

    monkeypatch.setattr(FrameBatchBuilder, "put", noted)
    requests = 0
    for packet in more:
        requests += len(tracker.feed(PacketBatch.of([packet])).frames.sequences)
    assert requests == 30
    assert len(copied) <= 2 * len(more)


@pytest.mark.parametrize("every", [1, 40, 500])
def test_frames_that_are_kept_apart_are_completed(every: int) -> None:
    beginnings, more = unfinished(200, 100)
    packets = placed([*beginnings, *more, *pipelining(0)])
    assert_equal(packets, range(0, len(packets), every), max_connections=190)
    assert_equal(packets, range(0, len(packets), every), max_held=16_000)


@pytest.mark.parametrize("packets", MIXED.values(), ids=MIXED)
def test_both_trackers_agree_on_them(packets: list[Packet]) -> None:
    assert_equal(packets, range(0, len(packets), 97), max_connections=200)
