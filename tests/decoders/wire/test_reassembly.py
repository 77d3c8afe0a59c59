"""Packets split, reordered, lost or damaged: only true frames, no false pairing, every byte counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Direction, Kind, Pairing, Record
from decoders.wire.segment import Packet
from decoders.wire.tracker import Tracker
from tests.decoders.wire.conversation import (
    EVENTS,
    TO_BROKER,
    TO_CLIENT,
    BitFlip,
    Event,
    assert_balanced,
    bit_flips,
    feed_all,
    flipped,
    metadata,
    metadata_response,
    new_tracker,
    packets_of,
    prefixed,
    produce,
)
from tests.decoders.wire.links import LINKS, carried
from tests.examples import examples


def split(data: bytes) -> Iterator[bytes]:
    """Yield the frames in bytes that hold complete ones."""
    while data:
        end = 4 + int.from_bytes(data[:4])
        yield data[4:end]
        data = data[end:]


def pipelined() -> list[Event]:
    """All requests are sent before the first response."""
    requests = [
        frame for number in range(1, 9) for frame in (metadata(number), produce(100 + number, acks=0))
    ]
    return [(TO_BROKER, prefixed(frame)) for frame in requests] + [
        (TO_CLIENT, prefixed(metadata_response(number))) for number in range(1, 9)
    ]


PIPELINED = pipelined()
segment_sizes = st.sampled_from([1, 3, 16, 100, 1460, 60_000])
randoms = st.integers(0, 1_000_000_000).map(Random)
sequences = st.tuples(*[st.sampled_from([0, (1 << 32) - 300, (1 << 31) - 20])] * 2)


def track(packets: list[Packet]) -> tuple[list[Record], Tracker]:
    tracker = new_tracker()
    records = feed_all(tracker, packets) + tracker.finish()
    return records, tracker


def frames(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind in (Kind.REQUEST, Kind.RESPONSE)]


def assert_true(records: list[Record]) -> None:
    """Each record holds a frame that was sent, or its beginning, in the order in which they were sent."""
    sent = {
        direction: iter([frame for towards, data in EVENTS if towards is direction for frame in split(data)])
        for direction in (TO_BROKER, TO_CLIENT)
    }
    for record in frames(records):
        assert any(
            len(frame) == record.true_length and frame.startswith(record.frame)
            for frame in sent[record.direction]
        ), record


def assert_no_false_pairing(records: list[Record]) -> None:
    assert not {Pairing.FOREIGN, Pairing.UNOWED} & {record.pairing for record in records}
    assert Kind.INVALID_SIZE not in {record.kind for record in records}


def assert_counted(tracker: Tracker, packets: list[Packet]) -> None:
    assert tracker.held == 0
    assert tracker.ledger.packets.total() == tracker.ledger.packets["tcp"] == len(packets)
    assert_balanced(tracker.ledger)


@cache
def expected_records() -> list[tuple[Kind, bytes, Pairing]]:
    return [(record.kind, record.frame, record.pairing) for record in track(packets_of(EVENTS))[0]]


@given(segment_sizes, sequences, st.data())
@examples(40)
def test_resegmented_and_duplicated_packets_make_the_same_records(
    size: int, initial: tuple[int, int], data: st.DataObject
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    repeated = data.draw(st.sets(st.integers(0, len(packets) - 1), max_size=20))
    packets = [packet for index, packet in enumerate(packets) for _ in range(1 + (index in repeated))]
    records, tracker = track(packets)
    assert [(record.kind, record.frame, record.pairing) for record in records] == expected_records()
    assert_counted(tracker, packets)
    assert tracker.ledger.lost == 0


@given(segment_sizes, sequences, randoms)
@examples(40)
def test_packets_reordered_within_one_send_make_the_same_records(
    size: int, initial: tuple[int, int], random: Random
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    sends: dict[int, list[Packet]] = {}
    for packet in packets[3:-2]:
        sends.setdefault(packet.captured_at, []).append(packet)
    shuffled = [packet for send in sends.values() for packet in random.sample(send, len(send))]
    packets = packets[:3] + shuffled + packets[-2:]
    records, tracker = track(packets)
    assert [(record.kind, record.frame, record.pairing) for record in records] == expected_records()
    assert_counted(tracker, packets)


@given(segment_sizes, sequences, randoms, st.sampled_from(list(LINKS)), st.booleans())
@examples(40)
def test_packets_in_any_order_that_tcp_allows_make_the_same_frames(
    size: int, initial: tuple[int, int], random: Random, link: str, repeated: bool
) -> None:
    """A segment follows those it acknowledges; all others may come in any order, and twice."""
    packets = packets_of(PIPELINED, segment=size, sequences=initial)
    if repeated:
        packets = [packet for packet in packets for _ in range(random.choice([1, 1, 2]))]
    packets = [carried(packet, link) for packet in permuted(packets, random)]
    records, tracker = track(packets)
    expected = track(packets_of(PIPELINED))[0]
    for direction in (TO_BROKER, TO_CLIENT):
        assert paired_frames(records, direction) == paired_frames(expected, direction)
    assert_counted(tracker, packets)
    assert tracker.ledger.lost == 0


def paired_frames(records: list[Record], direction: Direction) -> list[tuple[bytes, Pairing]]:
    return [(record.frame, record.pairing) for record in frames(records) if record.direction is direction]


def permuted(packets: list[Packet], random: Random) -> list[Packet]:
    """Shuffle what each side sends while the other is silent, but not the handshake and the end."""
    runs = [list(run) for _, run in groupby(packets[3:-2], key=lambda packet: packet.data[26:30])]
    return packets[:3] + [packet for run in runs for packet in random.sample(run, len(run))] + packets[-2:]


@given(sequences, st.sampled_from(list(LINKS)), st.integers(12, 200))
@examples(40)
def test_a_snap_length_cuts_frames_and_loses_none(initial: tuple[int, int], link: str, kept: int) -> None:
    """Of the frames in one segment only the first is surely captured."""
    headers = len(carried(packets_of([])[-1], link).data)
    packets = [carried(packet, link) for packet in packets_of(EVENTS, sequences=initial, close=False)]
    cut = [packet._replace(data=packet.data[: headers + 4 + kept]) for packet in packets[3:]]
    records, tracker = track(packets[:3] + cut)
    assert_true(records)
    assert_counted(tracker, packets)
    assert_no_false_pairing(records)
    recorded = {(record.direction, record.frame, record.true_length) for record in frames(records)}
    for direction, data in EVENTS:
        first = next(split(data))
        assert (direction, first[:kept], len(first)) in recorded


@given(segment_sizes, sequences, randoms, st.floats(0, 0.4))
@examples(80)
def test_lost_packets_lose_frames_and_invent_none(
    size: int, initial: tuple[int, int], random: Random, rate: float
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial)
    kept = [packet for packet in packets if random.random() >= rate]
    records, tracker = track(kept)
    assert_true(records)
    assert_counted(tracker, kept)
    assert_no_false_pairing(records)


@given(segment_sizes, sequences, randoms)
@examples(80)
def test_shuffled_packets_make_true_frames_only(size: int, initial: tuple[int, int], random: Random) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial) * 2
    random.shuffle(packets)
    records, tracker = track(packets)
    assert_true_each(records)
    assert_no_false_pairing(records)
    assert_counted(tracker, packets)


def assert_true_each(records: list[Record]) -> None:
    """As `assert_true` for each connection: shuffled handshakes make one connection several."""
    for connection in {record.connection for record in records}:
        assert_true([record for record in records if record.connection == connection])


@given(st.integers(0, 60))
@examples(30)
def test_a_capture_that_starts_anywhere_makes_true_frames(start: int) -> None:
    packets = packets_of(EVENTS, segment=100)[start:]
    records, tracker = track(packets)
    assert_true(records)
    assert_counted(tracker, packets)
    assert_no_false_pairing(records)


@given(bit_flips)
@examples(60)
def test_flipped_bits_raise_nothing_and_the_ledger_balances(flips: list[BitFlip]) -> None:
    packets = flipped(packets_of(EVENTS, segment=100), flips)
    records, tracker = track(packets)
    assert_balanced(tracker.ledger)
    assert all(earlier.sequence < later.sequence for earlier, later in pairwise(records))
