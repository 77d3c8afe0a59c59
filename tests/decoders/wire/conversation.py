"""Conversations in real Kafka bytes, the packets that carry them, and the records that come out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.schema.registry import default_schemas
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.tracker import Tracker

SCHEMAS = default_schemas()
CLIENT = SocketAddress(bytes([10, 0, 0, 1]), 40_000)
SERVER = SocketAddress(bytes([10, 0, 0, 2]), 9092)
TO_BROKER, TO_CLIENT = Direction.TO_BROKER, Direction.TO_CLIENT
SECOND = 1_000_000_000

HANDSHAKE = 3
"""Packets that open a connection."""

Event = tuple[Direction, bytes]
"""A direction and the bytes that go there, length prefixes included."""
BitFlip = tuple[int, int, int]
"""The index of a packet, the index of a byte in it, and the bits to flip."""
bit_flips = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 400), st.integers(1, 255)), max_size=30)


def prefixed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def request(api: str, version: int, correlation_id: int, **body: Any) -> bytes:
    return write_request(SCHEMAS, api, version, correlation_id, "client", body)


def response(api: str, version: int, correlation_id: int, **body: Any) -> bytes:
    return write_response(SCHEMAS, api, version, correlation_id, body)


def api_versions(correlation_id: int) -> bytes:
    return request("ApiVersions", 3, correlation_id, clientSoftwareName="kip", clientSoftwareVersion="1.0")


def api_versions_response(correlation_id: int) -> bytes:
    ranges = [{"apiKey": key, "minVersion": 0, "maxVersion": 3} for key in range(20)]
    return response("ApiVersions", 3, correlation_id, apiKeys=ranges)


def metadata(correlation_id: int) -> bytes:
    return request("Metadata", 9, correlation_id, topics=[{"name": f"topic-{correlation_id}"}])


def metadata_response(correlation_id: int) -> bytes:
    brokers = [{"nodeId": 1, "host": "broker", "port": 9092}]
    return response("Metadata", 9, correlation_id, brokers=brokers, clusterId="cluster")


def produce(correlation_id: int, acks: int, records: str = "cmVjb3Jkcw==") -> bytes:
    partition = {"index": 0, "records": records}
    topic = {"name": "topic", "partitionData": [partition]}
    return request("Produce", 7, correlation_id, acks=acks, timeoutMs=1000, topicData=[topic])


def produce_response(correlation_id: int) -> bytes:
    return response("Produce", 7, correlation_id)


def to_broker(*frames: bytes) -> list[Event]:
    return [(TO_BROKER, prefixed(frame)) for frame in frames]


def to_client(*frames: bytes) -> list[Event]:
    return [(TO_CLIENT, prefixed(frame)) for frame in frames]


def exchanges(count: int) -> list[Event]:
    """ApiVersions, then `count` Metadata requests, each sent after the response to the one before."""
    events = to_broker(api_versions(0)) + to_client(api_versions_response(0))
    for number in range(1, count + 1):
        events += to_broker(metadata(number)) + to_client(metadata_response(number))
    return events


def _mixed() -> list[Event]:
    topics = [{"name": f"a-topic-with-a-long-name-{number}"} for number in range(40)]
    large = response("Metadata", 9, 23, brokers=[], topics=topics)
    requests = [metadata(20), produce(21, acks=0), produce(22, acks=1), metadata(23)]
    pipelined = (TO_BROKER, b"".join(map(prefixed, requests)))
    responses = to_client(metadata_response(20), produce_response(22), large)
    return [*exchanges(3), pipelined, *responses, *exchanges(4)[2:]]


EVENTS = _mixed()
"""Exchanges in turn, pipelined requests, a Produce that expects no response, a large response."""


def packets_of(
    events: Iterable[Event],
    client: SocketAddress = CLIENT,
    server: SocketAddress = SERVER,
    *,
    start: int = 0,
    interval: int = SECOND,
    sequences: tuple[int, int] = (0, 0),
    close: bool = True,
    segment: int = 60_000,
    acknowledgment_delay: int = 0,
    acknowledges: bool = False,
) -> list[Packet]:
    """Carry events, `interval` nanoseconds apart, in segments of at most `segment` bytes.

    A receiver that `acknowledges` does so at once, and with the last packet; else with what it sends next.
    """
    connection = SyntheticConnection(
        client, server, initial_sequences=sequences, acknowledgment_delay=acknowledgment_delay
    )
    packets, at = connection.opened(start), start
    for direction, data in events:
        at += interval
        for begin in range(0, len(data), segment):
            packets += connection.sent(at, direction, data[begin : begin + segment])
        if acknowledges:
            packets += connection.acknowledged(at, TO_CLIENT if direction is TO_BROKER else TO_BROKER)
    if close:
        at += 0 if acknowledges else interval
        packets += connection.finished(at, TO_BROKER) + connection.finished(at, TO_CLIENT)
        packets += connection.acknowledged(at, TO_BROKER) if acknowledges else []
    return packets


def flipped(packets: Iterable[Packet], flips: Iterable[BitFlip]) -> list[Packet]:
    """Flip bits in some packets; indices wrap around."""
    changed = list(packets)
    for index, place, bits in flips:
        packet = changed[index % len(changed)]
        data = bytearray(packet.data)
        data[place % len(data)] ^= bits
        changed[index % len(changed)] = packet._replace(data=bytes(data))
    return changed


def new_tracker(**options: Any) -> Tracker:
    return Tracker(SCHEMAS, **{"ports": {9092}, "run": 7, **options})


def new_columnar_tracker(**options: Any) -> ColumnarTracker:
    return ColumnarTracker(SCHEMAS, **{"ports": {9092}, "run": 7, "secret": b"", **options})


def feed_all(tracker: Tracker, packets: Iterable[Packet]) -> list[Record]:
    return [record for packet in packets for record in tracker.feed(packet)]


def records_of(packets: Iterable[Packet], **options: Any) -> list[Record]:
    tracker = new_tracker(**options)
    return feed_all(tracker, packets) + tracker.finish()


def frames_in(records: Iterable[Record]) -> Iterator[tuple[Direction, bytes]]:
    return ((record.direction, record.frame) for record in records if record.frame)


def kinds(records: list[Record]) -> list[Kind]:
    return [record.kind for record in records]


def of_kind(records: list[Record], kind: Kind) -> list[Record]:
    return [record for record in records if record.kind is kind]


def pairings(records: list[Record]) -> list[Pairing]:
    return [record.pairing for record in of_kind(records, Kind.RESPONSE)]


def balances(ledger: Ledger) -> bool:
    """Whether every captured byte is counted exactly once."""
    return ledger.captured == ledger.framed + ledger.skipped.total() + ledger.pending


def assert_balanced(ledger: Ledger) -> None:
    """Assert that each captured byte has a fate, and none is left."""
    assert ledger.pending == 0
    assert ledger.captured == ledger.framed + ledger.skipped.total()
