"""A connection that was offloaded and restored goes on as one that never was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from decoders.frame.record import Closing, Record
from decoders.tls.key_log import KeyLog
from decoders.wire.chunk import Chunk
from decoders.wire.columnar.flows import Flows
from decoders.wire.columnar.offload import offload, restore
from decoders.wire.connection import Connection
from decoders.wire.framing import Assembly, AssemblySnapshot
from decoders.wire.record_stream import RecordStream
from decoders.wire.segment import Packet, Segment, SocketAddress, read_segment
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.tracker import Tracker
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    HANDSHAKE,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    feed_all,
    metadata,
    metadata_response,
    new_tracker,
    prefixed,
    to_broker,
    to_client,
)
from tests.decoders.wire.encrypted import encrypted

HEADERS = 54
"""Bytes of a packet without a payload."""


@dataclass
class Followed:
    """The connection that a tracker follows, and how many records it has made."""

    tracker: Tracker
    connection: Connection
    records: int

    @property
    def holds_records(self) -> bool:
        """Whether bytes of an incomplete TLS record are held, which `restore` does not copy."""
        records = self.connection.snapshot().records
        return records is not None and any(records.held.values())

    def take_over(self, other: Followed) -> None:
        """Restore here what is offloaded there. Other clients take the numbers of the records in between."""
        flows = Flows()
        assembled = offload(other.connection, flows, flows.acquire(), True, 1)
        assert assembled is not None
        for direction, piece in enumerate(assembled):
            row = flows.streams[0, direction]
            row["start"], row["filled"] = direction * len(assembled[0]), len(piece)
            if self is not other and self.connection.decryption is not None:
                streams = self.connection.decryption.streams
                streams[(TO_BROKER, TO_CLIENT)[direction]] = RecordStream(int(row["next"]))
        flows.states[0]["has_new_frames"] = other.records > self.records
        for port in range(1, other.records - self.records + 1):
            client = SyntheticConnection(SocketAddress(CLIENT.address, port), SERVER)
            self.tracker.feed(client.opened(0)[0])
        restore(flows, 0, self.connection, np.frombuffer(bytearray(b"".join(assembled)), np.uint8))

    def goes_on(self, packets: Iterable[Packet]) -> Iterator[Record]:
        """What is recorded of further packets and of the end."""
        for segment in map(read_segment, packets):
            assert isinstance(segment, Segment)
            if not self.connection.is_closed:
                yield from self.connection.process(segment)
        if not self.connection.is_closed:
            yield from self.connection.close(Closing.IDLE, 0, 0)


@dataclass
class Conversation:
    """The packets of EVENTS, and the secrets that decrypt them."""

    packets: list[Packet]
    keys: str

    def followed(self, count: int) -> Followed:
        """Process the first packets."""
        key_log = KeyLog() if self.keys else None
        if key_log is not None:
            key_log.add(self.keys)
        tracker = new_tracker(key_log=key_log, keeps_principals=True)
        records = len(feed_all(tracker, self.packets[:count]))
        (connection,) = tracker.connections
        return Followed(tracker, connection, records)

    @cached_property
    def places(self) -> dict[int, bool]:
        """The numbers of packets behind which it can be offloaded, and whether it then holds records."""
        ways = ((count, self.followed(count)) for count in range(1, len(self.packets) - 1))
        return {count: one.holds_records for count, one in ways if one.connection.can_be_offloaded}


@pytest.fixture(scope="module", params=[None, SUITES[0], SUITES[3]], ids=["plain", "TLS 1.2", "TLS 1.3"])
def conversation(request: pytest.FixtureRequest) -> Conversation:
    if request.param is None:
        return Conversation(packets_between(EVENTS, segment=50), "")
    writer = TlsWriter(*request.param)
    return Conversation(packets_between(encrypted(EVENTS, writer, 90), segment=50), writer.key_log)


def without_next_bytes(packets: list[Packet]) -> list[Packet]:
    at = next(at for at, each in enumerate(packets) if len(each.data) > HEADERS or at == len(packets) - 1)
    return packets[:at] + packets[at + 1 :]


REST: dict[str, Callable[[list[Packet]], list[Packet]]] = {
    "all of it": list,
    "bytes are lost": without_next_bytes,
    "all of it twice": lambda packets: [each for each in packets for _ in range(2)],
    "nothing": lambda _: [],
}


@pytest.mark.parametrize("rest", REST)
def test_a_connection_goes_on_from_what_another_tracker_made_of_it(
    conversation: Conversation, rest: str
) -> None:
    """It gets the state of a twin that has processed more packets: nothing that changes may be forgotten."""
    places = [place for place, holds_records in conversation.places.items() if not holds_records]
    for number in range(len(places) - 1, 0, -3):
        place, behind = places[number], conversation.followed(places[number // 3])
        behind.take_over(conversation.followed(place))
        twin, left = conversation.followed(place), REST[rest](conversation.packets[place:])
        assert behind.connection.snapshot() == twin.connection.snapshot()
        assert [*behind.goes_on(left)] == [*twin.goes_on(left)]
    assert len(places) > 5


def test_a_flow_restores_the_state_that_was_offloaded(conversation: Conversation) -> None:
    """That of requests in flight, of frames under assembly and of incomplete records, too."""
    with_requests = with_frames = with_records = 0
    for place, holds_records in conversation.places.items():
        followed = conversation.followed(place)
        before = followed.connection.snapshot()
        with_records += holds_records
        followed.take_over(followed)
        assert followed.connection.snapshot() == before
        with_requests += bool(before.kafka.in_flight.requests)
        with_frames += any(before.kafka.frames.values())
    assert with_requests and with_frames
    assert bool(with_records) == bool(conversation.keys)


@pytest.mark.parametrize("size", range(9))
def test_an_assembly_continues_from_a_snapshot(size: int) -> None:
    content = (8).to_bytes(4) + bytes(range(4))
    chunk = Chunk(0, content[:size], 5, 6, 7, starts_segment=True)
    assembly = Assembly(chunk, 100)
    assembly.add(content[: min(size, 4)])
    assembly.add(content[4:size])
    snapshot = assembly.snapshot()
    assert isinstance(snapshot, AssemblySnapshot)
    assert Assembly.of(snapshot, 100).snapshot() == snapshot
    assert Assembly.of(snapshot, 100).wanted == assembly.wanted


def test_a_connection_that_seeks_a_boundary_cannot_be_offloaded() -> None:
    """It is joined within a request: the next request and its response show where frames begin."""
    exchange = to_broker(metadata(2)) + to_client(metadata_response(2))
    joined = packets_between([(TO_BROKER, prefixed(metadata(1))[9:]), *exchange], close=False)[HANDSHAKE:]
    tracker, offloadable = new_tracker(), list[bool]()
    for packet in joined:
        tracker.feed(packet)
        (connection,) = tracker.connections
        offloadable.append(connection.can_be_offloaded)
    assert offloadable == [False] * 4 + [True] * 2
