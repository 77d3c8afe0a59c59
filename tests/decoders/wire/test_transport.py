"""Packets in and out of order: nothing is lost, waits are bounded, and ordinary segments take a short way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Direction, Kind, Pairing, Record
from decoders.tls.key_log import KeyLog
from decoders.wire import transport
from decoders.wire.segment import Packet, Segment, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.transport import Transport
from decoders.wire.waiting import MAX_WAIT, MAX_WAIT_SEGMENTS, WaitingConnections
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import assert_equal, packets_between, placed, scalar
from tests.decoders.wire.columnar.forging import ACK, RST, like
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    HANDSHAKE,
    SERVER,
    TO_BROKER,
    balances,
    exchanges,
    feed_all,
    kinds,
    metadata,
    metadata_response,
    new_tracker,
    of_kind,
    packets_of,
    pairings,
    prefixed,
    records_of,
    to_broker,
)
from tests.decoders.wire.encrypted import encrypted
from tests.decoders.wire.encrypted import packets as packets_over_tls
from tests.decoders.wire.mutations import MUTATIONS, mutated, originals
from tests.examples import examples

MILLISECOND = 1_000_000
OTHER_CLIENT = SocketAddress(CLIENT.address, 49_999)
randoms = st.integers(0, 1_000_000_000).map(Random)
segment_sizes = st.sampled_from([16, 100, 1460, 60_000])


def said(records: list[Record]) -> list[tuple[object, ...]]:
    """What records say besides times and places."""
    return [
        (record.kind, record.direction, record.frame, record.pairing, record.paired_sequence, record.flags)
        for record in records
    ]


def delayed(packets: list[Packet], delays: list[int]) -> list[Packet]:
    """Capture each packet later by a number of nanoseconds; the first one is in time."""
    moved = zip(packets, [0, *delays[1:]], strict=True)
    late = [packet._replace(captured_at=packet.captured_at + delay) for packet, delay in moved]
    return placed(sorted(late, key=lambda packet: packet.captured_at))


@given(randoms, segment_sizes, st.sampled_from([1, 3, 40]), st.lists(st.integers(0, 200), max_size=4))
@examples(60)
def test_any_order_within_the_bound_makes_the_same_records(
    random: Random, size: int, interval: int, cuts: list[int]
) -> None:
    """Only the SYN is in time: what comes before it was joined midway."""
    packets = packets_of(exchanges(6), segment=size, interval=interval * MILLISECOND)
    delays = [random.randrange(MAX_WAIT // 3) for _ in packets]
    records = assert_equal(delayed(packets, delays), cuts)
    assert said(records) == said(records_of(packets))


@given(randoms, segment_sizes, st.lists(st.integers(0, 200), max_size=4))
@examples(40)
def test_pipelined_requests_are_paired_in_any_order(random: Random, size: int, cuts: list[int]) -> None:
    packets = packets_between(EVENTS, segment=size, interval=MILLISECOND)
    delays = [random.randrange(MAX_WAIT // 3) for _ in packets]
    records, ordered = assert_equal(delayed(packets, delays), cuts), records_of(packets)
    assert Kind.GAP not in kinds(records)
    for kind in (Kind.REQUEST, Kind.RESPONSE):
        expected = [(record.frame, record.pairing) for record in of_kind(ordered, kind)]
        assert [(record.frame, record.pairing) for record in of_kind(records, kind)] == expected


@pytest.mark.parametrize("slow", [0, 1], ids=["to the broker", "to the client"])
def test_a_queue_for_each_direction_of_which_one_is_late(slow: int) -> None:
    """Then responses are captured before their requests, or requests before the SYN-ACK."""
    packets = packets_of(exchanges(5), interval=MILLISECOND)
    source = [packets[0].data[26:30], packets[1].data[26:30]][slow]
    delays = [30 * MILLISECOND * (packet.data[26:30] == source) for packet in packets]
    records = assert_equal(delayed(packets, delays))
    assert set(pairings(records)) == {Pairing.MATCHED}
    assert said(records) == said(records_of(packets))


def test_a_reset_that_overtakes_the_last_response() -> None:
    packets = packets_of(exchanges(2), close=False, interval=MILLISECOND)
    reset = packets_of(exchanges(2), interval=MILLISECOND)[-2]
    packets.append(like(reset, flags=RST | ACK))
    swapped = placed([*packets[:-2], packets[-1], packets[-2]])
    records = assert_equal(swapped)
    assert said(records) == said(records_of(packets))
    assert records[-1].closing is Closing.RST


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_reset_closes_once_whichever_segment_ends_the_wait(more: int) -> None:
    """The request that it overtook, one segment too many, or both at the same time."""
    connection = SyntheticConnection(CLIENT, SERVER)
    opened, sent = connection.opened(0), connection.sent(0, TO_BROKER, prefixed(metadata(1)))
    acknowledgments = opened[-1:] * (MAX_WAIT_SEGMENTS + more)
    packets = placed([*opened, *connection.reset(0, TO_BROKER), *acknowledgments, *sent])
    assert kinds(assert_equal(packets)).count(Kind.CLOSED) == 1


class TestTrueLoss:
    def lossy(self) -> list[Packet]:
        packets = packets_of(exchanges(4), interval=MILLISECOND, close=False)
        return [*packets[: HANDSHAKE + 2], *packets[HANDSHAKE + 3 :]]

    def test_it_is_given_up_when_another_connection_shows_that_time_passed(self) -> None:
        tracker, lossy = new_tracker(), self.lossy()
        assert Kind.GAP not in kinds(feed_all(tracker, lossy))
        later = lossy[-1].captured_at + MAX_WAIT + MILLISECOND
        other = packets_between([], OTHER_CLIENT, start=later)[:1]
        records = feed_all(tracker, other)
        assert Kind.GAP in kinds(records)
        assert Pairing.UNOWED not in pairings(records)
        assert balances(tracker.ledger)
        assert_equal(placed([*lossy, *other]))

    def test_it_is_given_up_after_many_segments_if_the_clock_stands_still(self) -> None:
        events = exchanges(MAX_WAIT_SEGMENTS)
        packets = packets_of(events, interval=0, close=False)
        del packets[HANDSHAKE + 2]
        tracker = new_tracker()
        assert Kind.GAP in kinds(feed_all(tracker, packets[: HANDSHAKE + MAX_WAIT_SEGMENTS + 10]))
        assert_equal(placed(packets))

    def test_it_is_given_up_at_the_end_of_the_capture(self) -> None:
        records = assert_equal(placed(self.lossy()))
        assert kinds(records).count(Kind.GAP) == 1
        assert len(of_kind(records, Kind.REQUEST)) == 4
        assert len(of_kind(records, Kind.RESPONSE)) == 5

    def test_it_is_given_up_when_the_connection_ends(self) -> None:
        packets = packets_of(exchanges(4), interval=MILLISECOND)
        del packets[HANDSHAKE + 2]
        records = assert_equal(placed(packets))
        assert kinds(records).count(Kind.GAP) == 1
        assert records[-1].closing is Closing.FIN


def test_acknowledgments_of_bytes_that_never_come_take_no_memory() -> None:
    packets = packets_of(to_broker(metadata(1)), close=False)
    tracker = new_tracker()
    feed_all(tracker, packets)
    held = tracker.held
    sent = len(prefixed(metadata(1)))
    for number in range(5_000):
        feed_all(tracker, [like(packets[-1], flags=ACK, sequence=sent, acknowledgment=1_000 * number)])
        assert tracker.held <= held


def test_what_is_held_behind_a_hole_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_HELD", 2_000)
    packets = packets_of([(TO_BROKER, prefixed(metadata(number))) for number in range(60)], interval=0)
    del packets[HANDSHAKE]
    tracker = new_tracker()
    for packet in packets:
        tracker.feed(packet)
        assert sum(connection.unprocessed for connection in tracker.connections) <= 2_000
    assert tracker.ledger.lost == len(prefixed(metadata(0)))


def test_each_of_many_connections_waits_for_its_own_time() -> None:
    """A stranger may send one acknowledgment of a lost response on each of them."""
    tracker, apart, many = new_tracker(), 1_000, 300
    exchange = [*to_broker(metadata(1)), (Direction.TO_CLIENT, prefixed(metadata_response(1)))]
    for number in range(many):
        client = SocketAddress(CLIENT.address, 20_000 + number)
        packets = packets_between(exchange, client, start=number * apart, interval=0, close=False)
        del packets[-2]  # the response, which the client acknowledges
        feed_all(tracker, packets)
    until = tracker.waits_until
    assert until is not None
    clock = SyntheticConnection(OTHER_CLIENT, SERVER)
    given_up = [
        kinds(feed_all(tracker, clock.opened(at)[:1])).count(Kind.GAP)
        for at in (until, until + 1, until + 1 + (many - 1) * apart)
    ]
    assert given_up == [0, 1, many - 1]


def test_only_what_is_due_is_looked_at() -> None:
    looked_at = []

    class Since(int):
        def __lt__(self, other: int) -> bool:
            looked_at.append(self)
            return int(self) < other

    waiting = WaitingConnections[int](10)
    for number in range(300):
        waiting.note(number, Since(number))
    assert [*waiting.overdue(13)] == [0, 1, 2]
    assert looked_at == [0, 1, 2, 3]


MUTANTS = 500


def both_ways(
    packets: list[Packet], monkeypatch: pytest.MonkeyPatch, *, keys: str = "", **options: Any
) -> int:
    """Assert that records and ledgers are equal, and return how many segments took the short way."""
    taken, is_ordinary = 0, Transport.is_ordinary

    def counted(transport: Transport, direction: Direction, segment: Segment) -> bool:
        nonlocal taken
        verdict = is_ordinary(transport, direction, segment)
        taken += verdict
        return verdict

    said = []
    for way in (counted, lambda *_: False):
        key_log = KeyLog() if keys else None
        if key_log is not None:
            key_log.add(keys)
        with monkeypatch.context() as patch:
            patch.setattr(Transport, "is_ordinary", way)
            said.append(scalar(packets, key_log=key_log, **options))
    assert said[0] == said[1]
    return taken


def test_mutants_of_real_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, taken = originals(), 0
    for seed in range(MUTANTS):
        random = Random(seed)
        packets = placed(mutated(random, random.choice(sources)))
        taken += both_ways(packets, monkeypatch, ports=random.choice([(), (9092,)]))
    assert taken > MUTANTS


@pytest.mark.parametrize("suite", [SUITES[3], SUITES[0]], ids=["TLS 1.3", "TLS 1.2"])
def test_mutants_over_tls(suite: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TlsWriter(*suite)
    sent, taken = packets_over_tls(encrypted(EVENTS, writer, size=80)), 0
    for seed in range(MUTANTS // 5):
        random, packets = Random(seed), list(sent)
        for _ in range(random.randrange(4)):
            random.choice(MUTATIONS)(random, packets)
        taken += both_ways(placed(packets), monkeypatch, keys=writer.key_log)
    assert taken > MUTANTS


def test_requests_and_responses_in_their_turn_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert both_ways(packets_of(exchanges(20)), monkeypatch) >= 40
