"""The columnar tracker makes the records and the ledger of the scalar one, for any packets."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.request import write_request
from decoders.frame.record import Kind
from decoders.wire.columnar import tracker as columnar_tracker
from decoders.wire.pcap import read_capture
from decoders.wire.segment import Packet, SocketAddress
from tests.decoders.wire.columnar.equality import assert_equal, interleaved, packets_between, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    SCHEMAS,
    SECOND,
    TO_BROKER,
    TO_CLIENT,
    BitFlip,
    bit_flips,
    flipped,
    packets_of,
    to_broker,
)
from tests.examples import examples
from tests.repository.tree import ROOT

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.pcap"))
segment_sizes = st.sampled_from([7, 16, 100, 1460, 60_000])
intervals = st.sampled_from([1_000_000, SECOND, 3 * SECOND])
randoms = st.integers(0, 1_000_000_000).map(Random)
sequences = st.tuples(*[st.sampled_from([0, (1 << 32) - 300, (1 << 31) - 20])] * 2)
cuts = st.lists(st.integers(0, 10_000), max_size=6)
some = examples(30)


@given(segment_sizes, intervals, sequences, cuts)
@some
def test_a_clean_conversation(size: int, interval: int, initial: tuple[int, int], cut: list[int]) -> None:
    assert_equal(placed(packets_of(EVENTS, segment=size, interval=interval, sequences=initial)), cut)


@given(st.binary(max_size=40), st.binary(max_size=8), segment_sizes, cuts, st.booleans())
@some
def test_a_connection_that_begins_with_anything(
    beginning: bytes, response: bytes, size: int, cut: list[int], watched: bool
) -> None:
    events = [(TO_BROKER, beginning), (TO_CLIENT, response), (TO_BROKER, beginning)]
    assert_equal(placed(packets_of(events, segment=size)), cut, ports={9092} if watched else set())


@given(segment_sizes, intervals, st.integers(2, 12), randoms, cuts)
@some
def test_many_connections_at_once(
    size: int, interval: int, clients: int, random: Random, cut: list[int]
) -> None:
    conversations = [
        packets_between(
            EVENTS[: random.randrange(len(EVENTS) + 1)],
            SocketAddress(random.choice([CLIENT.address, bytes(15) + b"\1"]), 40_000 + client),
            interval=interval,
            segment=size,
            close=random.random() < 0.7,
        )
        for client in range(clients)
    ]
    assert_equal(interleaved(conversations, random), cut)


@given(segment_sizes, sequences, randoms, cuts)
@some
def test_shuffled_and_repeated_packets(
    size: int, initial: tuple[int, int], random: Random, cut: list[int]
) -> None:
    packets = packets_of(EVENTS, segment=size, sequences=initial) * 2
    random.shuffle(packets)
    assert_equal(placed(packets), cut)


@given(segment_sizes, intervals, randoms, st.floats(0, 0.4), st.integers(0, 8), cuts)
@some
def test_lost_repeated_and_swapped_packets(  # noqa: PLR0917 - drawn
    size: int, interval: int, random: Random, rate: float, swaps: int, cut: list[int]
) -> None:
    packets = packets_of(EVENTS, segment=size, interval=interval)
    for _ in range(swaps):
        at = random.randrange(len(packets) - 1)
        packets[at], packets[at + 1] = packets[at + 1], packets[at]
    kept = [
        packet for packet in packets for _ in range(random.choice([1, 1, 1, 2])) if random.random() >= rate
    ]
    assert_equal(placed(kept), cut)


@given(segment_sizes, intervals, st.integers(0, 60), randoms, st.sampled_from([0, 0.1]), cuts)
@some
def test_excluded_clients_beside_others(  # noqa: PLR0917 - drawn
    size: int, interval: int, start: int, random: Random, rate: float, cut: list[int]
) -> None:
    """Clients are told apart by the requests that they send first; some are joined midway."""
    conversations = [
        packets_between(
            [*to_broker(write_request(SCHEMAS, "Metadata", 9, 0, client_id, {"topics": []})), *EVENTS],
            SocketAddress(CLIENT.address, 40_000 + number),
            interval=interval,
            segment=size,
        )[start * (number % 2) :]
        for number, client_id in enumerate(["excluded", "excluded", "watched", None])
    ]
    kept = [packet for packet in interleaved(conversations, random) if random.random() >= rate]
    records = assert_equal(placed(kept), cut, excludes_client="excluded".__eq__)
    if not rate:
        assert any(record.kind is Kind.RESPONSE for record in records)
        excluded = [record for record in records if str(record.client).endswith(":40000")]
        assert [record.kind for record in excluded] == [Kind.OPENED, Kind.REQUEST, Kind.GAP, Kind.CLOSED]


@given(segment_sizes, st.integers(0, 200), cuts, st.booleans())
@some
def test_a_capture_that_starts_anywhere(size: int, start: int, cut: list[int], watched: bool) -> None:
    packets = placed(packets_of(EVENTS, segment=size)[start:])
    assert_equal(packets, cut, ports={9092} if watched else set())


@given(bit_flips, cuts)
@some
def test_flipped_bits(flips: list[BitFlip], cut: list[int]) -> None:
    packets = flipped(packets_of(EVENTS, segment=100), flips)
    assert_equal(placed(packets), cut)


@given(randoms, st.lists(st.integers(20, 1500), min_size=1, max_size=4), cuts)
@some
def test_packets_cut_by_the_snap_length(random: Random, snap_lengths: list[int], cut: list[int]) -> None:
    packets = packets_of(EVENTS, segment=1460)
    cut_off = [packet._replace(data=packet.data[: random.choice(snap_lengths)]) for packet in packets]
    assert_equal(placed(cut_off), cut)


@given(st.integers(1, 5), randoms, cuts)
@some
def test_socket_pairs_that_are_numbered_anew(most: int, random: Random, cut: list[int]) -> None:
    clients = [SocketAddress(CLIENT.address, 40_000 + client) for client in range(6)]
    packets = interleaved([packets_between(EVENTS, client) for client in clients], random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar_tracker, "MAX_PAIRS", most)
        assert_equal(packets, cut)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
@pytest.mark.parametrize("ports", [set(), {9092}], ids=["any", "9092"])
def test_captures_of_real_clients(path: Path, ports: set[int]) -> None:
    with path.open("rb") as file:
        packets = list(read_capture(file))
    assert_equal(packets, range(0, len(packets), 97), ports=ports)


@given(
    randoms,
    st.sampled_from([1, 3, 130, 300]),
    st.lists(st.integers(-30 * 3600, 30 * 3600), max_size=8),
    segment_sizes,
    cuts,
)
@some
def test_idle_and_evicted_connections(
    random: Random, most: int, waits: list[int], size: int, cut: list[int]
) -> None:
    """The clock of the capture jumps, to and fro."""
    conversations = [
        packets_between(
            EVENTS[: random.randrange(len(EVENTS))],
            SocketAddress(CLIENT.address, 40_000 + client),
            segment=size,
            close=client % 2 == 0,
        )
        for client in range(9)
    ]
    packets: list[Packet] = interleaved(conversations, random)
    for wait in waits:
        at = random.randrange(len(packets))
        packets[at:] = [p._replace(captured_at=p.captured_at + wait * SECOND) for p in packets[at:]]
    first = min(packet.captured_at for packet in packets)
    packets = [packet._replace(captured_at=packet.captured_at - min(0, first)) for packet in packets]
    assert_equal(packets, cut, max_connections=most)


@given(segment_sizes, randoms, st.integers(500, 8_000), cuts)
@some
def test_connections_that_hold_too_much(size: int, random: Random, most: int, cut: list[int]) -> None:
    conversations = [
        packets_between(EVENTS, SocketAddress(CLIENT.address, 40_000 + client), segment=size)
        for client in range(4)
    ]
    packets = [packet for packet in interleaved(conversations, random) if random.random() > 0.02]
    assert_equal(packets, cut, max_held=most)
