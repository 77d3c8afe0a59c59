"""Whatever happens to the packets: only true frames, nobody accused, every byte booked.

The conversation is a real one: pipelined requests, a Produce without an answer, a large answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.frame.record import Kind, Pairing, Record
from decoders.wire.packet import Packet
from decoders.wire.tracker import Tracker
from tests.decoders.wire.conversation import (
    TO_BROKER,
    TO_CLIENT,
    Event,
    exchanges,
    fed,
    metadata,
    metadata_answer,
    packets_of,
    prefixed,
    produce,
    produce_answer,
    response,
    tracker,
)


def conversation() -> list[Event]:
    topics = [{"name": f"a-topic-with-a-long-name-{number}"} for number in range(40)]
    large = response("Metadata", 9, 23, brokers=[], topics=topics)
    asked = [metadata(20), produce(21, acks=0), produce(22, acks=1), metadata(23)]
    told = [metadata_answer(20), produce_answer(22), large]
    events = exchanges(3)
    events.append((TO_BROKER, b"".join(map(prefixed, asked))))
    events += [(TO_CLIENT, prefixed(frame)) for frame in told]
    return events + exchanges(4)[2:]


def split(data: bytes) -> Iterator[bytes]:
    """Give the frames of bytes that hold whole ones."""
    while data:
        end = 4 + int.from_bytes(data[:4])
        yield data[4:end]
        data = data[end:]


EVENTS = conversation()
segment_sizes = st.sampled_from([1, 3, 16, 100, 1460, 60_000])
randoms = st.integers(0, 1_000_000_000).map(Random)
sequences = st.tuples(*[st.sampled_from([0, (1 << 32) - 300, (1 << 31) - 20])] * 2)


def followed(packets: list[Packet]) -> tuple[list[Record], Tracker]:
    follower = tracker()
    records = fed(follower, packets) + follower.finish()
    return records, follower


def frames(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind in (Kind.REQUEST, Kind.RESPONSE)]


def assert_true(records: list[Record]) -> None:
    """Each frame is a true one, or the beginning of one, in the order in which they were sent."""
    sent = {
        direction: iter([frame for towards, data in EVENTS if towards is direction for frame in split(data)])
        for direction in (TO_BROKER, TO_CLIENT)
    }
    for record in frames(records):
        assert any(
            len(frame) == record.true_length and frame.startswith(record.frame)
            for frame in sent[record.direction]
        ), record


def assert_nobody_accused(records: list[Record]) -> None:
    assert not {Pairing.FOREIGN, Pairing.UNOWED} & {record.pairing for record in records}


def assert_balanced(follower: Tracker, packets: list[Packet]) -> None:
    ledger = follower.ledger
    assert ledger.balances
    assert ledger.pending == 0
    assert ledger.packets.total() == ledger.packets["tcp"] == len(packets)
    assert ledger.captured == ledger.framed + ledger.skipped.total()


def whole() -> list[tuple[Kind, bytes, Pairing]]:
    return [(record.kind, record.frame, record.pairing) for record in followed(packets_of(EVENTS))[0]]


@given(segment_sizes, sequences, st.data())
@settings(max_examples=40, deadline=None)
def test_resegmented_and_duplicated_packets_give_the_same_records(
    size: int, initial: tuple[int, int], data: st.DataObject
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    repeated = data.draw(st.sets(st.integers(0, len(packets) - 1), max_size=20))
    packets = [packet for index, packet in enumerate(packets) for _ in range(1 + (index in repeated))]
    records, follower = followed(packets)
    assert [(record.kind, record.frame, record.pairing) for record in records] == whole()
    assert_balanced(follower, packets)
    assert follower.ledger.lost == 0


@given(segment_sizes, sequences, randoms)
@settings(max_examples=40, deadline=None)
def test_packets_reordered_within_one_send_give_the_same_records(
    size: int, initial: tuple[int, int], random: Random
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    sends: dict[int, list[Packet]] = {}
    for packet in packets[3:-2]:
        sends.setdefault(packet.captured_at, []).append(packet)
    shuffled = [packet for send in sends.values() for packet in random.sample(send, len(send))]
    packets = packets[:3] + shuffled + packets[-2:]
    records, follower = followed(packets)
    assert [(record.kind, record.frame, record.pairing) for record in records] == whole()
    assert_balanced(follower, packets)


@given(segment_sizes, sequences, randoms, st.floats(0, 0.4))
@settings(max_examples=80, deadline=None)
def test_lost_packets_lose_frames_and_invent_none(
    size: int, initial: tuple[int, int], random: Random, rate: float
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    kept = [packet for packet in packets if random.random() >= rate]
    records, follower = followed(kept)
    assert_true(records)
    assert_balanced(follower, kept)
    assert_nobody_accused(records)


@given(segment_sizes, sequences, randoms)
@settings(max_examples=80, deadline=None)
def test_shuffled_packets_give_true_frames_only(size: int, initial: tuple[int, int], random: Random) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial) * 2
    random.shuffle(packets)
    records, follower = followed(packets)
    assert_true_each(records)
    assert_nobody_accused(records)
    assert_balanced(follower, packets)


def assert_true_each(records: list[Record]) -> None:
    """As `assert_true` for each connection: shuffled handshakes make several of one."""
    for connection in {record.connection for record in records}:
        assert_true([record for record in records if record.connection == connection])


@given(st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_a_capture_that_starts_anywhere_tells_true_frames(start: int) -> None:
    packets = packets_of(EVENTS, segment=100)[start:]
    records, follower = followed(packets)
    assert_true(records)
    assert_balanced(follower, packets)
    assert_nobody_accused(records)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 400), st.integers(1, 255)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_flipped_bits_raise_nothing_and_the_ledger_balances(flips: list[tuple[int, int, int]]) -> None:
    packets = packets_of(EVENTS, segment=100)
    for index, place, bits in flips:
        packet = packets[index % len(packets)]
        data = bytearray(packet.data)
        data[place % len(data)] ^= bits
        packets[index % len(packets)] = packet._replace(data=bytes(data))
    records, follower = followed(packets)
    assert follower.ledger.balances
    assert follower.ledger.pending == 0
    assert all(earlier.sequence < later.sequence for earlier, later in pairwise(records))
