"""Lazy connections, which compiled code opens and closes, and what makes them known to the scalar tracker."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.eviction import max_half_open
from decoders.wire.ledger import Ledger
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from decoders.wire.tracker import Tracker
from tests.decoders.wire.columnar.equality import assert_equal, columnar, interleaved, packets_between, placed
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    SECOND,
    SERVER,
    TO_BROKER,
    new_columnar_tracker,
    new_tracker,
)
from tests.examples import examples

CLIENTS = [SocketAddress(CLIENT.address, 40_000 + number) for number in range(20)]
MANY = 1_000
cuts = st.lists(st.integers(0, 10_000), max_size=6)


def syn_of(client: SocketAddress, at: int = 0) -> Packet:
    return SyntheticConnection(client, SERVER).opened(at)[0]


@pytest.mark.parametrize("key_log", [None, KeyLog()])
def test_ordinary_connections_do_not_meet_the_scalar_tracker(
    key_log: KeyLog | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do those in plaintext if there is a key log."""
    packets = interleaved([packets_between(EVENTS, client) for client in CLIENTS], Random(1))
    records = assert_equal(packets, key_log=key_log)
    monkeypatch.delattr(Tracker, "process")
    monkeypatch.delattr(Tracker, "adopt")
    assert columnar([packets], key_log=key_log)[0] == records
    assert len(records) > 2 * len(CLIENTS)


@pytest.mark.parametrize("take", [slice(None), slice(None, -1)])
def test_both_trackers_notify_of_ends_with_equal_ledgers(take: slice) -> None:
    packets = placed(packet for client in CLIENTS[:3] for packet in packets_between(EVENTS, client)[take])
    ended: list[tuple[SocketAddress, SocketAddress, Ledger]] = []
    columnar([packets], on_end=lambda *end: ended.append(end))
    wanted: list[tuple[SocketAddress, SocketAddress, Ledger]] = []
    tracker = new_tracker(on_end=lambda *end: wanted.append(end))
    for packet in packets:
        tracker.feed(packet)
    tracker.finish()
    assert ended == wanted
    assert [bool(ledger.framed) for _, _, ledger in ended] == [True] * 3


def test_of_a_flood_of_connections_as_many_stay_open_as_may_be_half_open() -> None:
    clients = [SocketAddress(CLIENT.address, 20_000 + number) for number in range(MANY)]
    packets = placed(syn_of(client, number) for number, client in enumerate(clients))
    records = assert_equal(packets, (7, 300), max_connections=10)
    assert sum(record.closing is Closing.EVICTED for record in records) == MANY - max_half_open(10)


def _whole(client: SocketAddress, server: SocketAddress, initial: int, at: int) -> list[Packet]:
    synthetic = SyntheticConnection(client, server, initial_sequences=(initial, initial + 7))
    packets = synthetic.opened(at)
    for direction, data in EVENTS[:2]:
        packets += synthetic.sent(at, direction, data)
    return [*packets, *synthetic.reset(at, TO_BROKER)]


def _half(client: SocketAddress, server: SocketAddress, initial: int, at: int) -> list[Packet]:
    return _whole(client, server, initial, at)[:1]


@given(
    st.lists(
        st.tuples(st.sampled_from([_whole, _half]), st.booleans(), st.sampled_from([0, 1, 5_000])), max_size=8
    ),
    cuts,
    st.booleans(),
)
@examples(40)
def test_either_of_two_sockets_connects_to_the_other(
    connections: list[tuple[Callable[..., list[Packet]], bool, int]], cut: list[int], both: bool
) -> None:
    """Both ports may be watched, or all; a SYN may be that of a connection that has ended."""
    packets: list[Packet] = []
    for number, (made, is_swapped, initial) in enumerate(connections):
        ends = (SERVER, CLIENT) if is_swapped else (CLIENT, SERVER)
        packets += made(*ends, initial, number * SECOND)
    assert_equal(placed(packets), cut, ports={SERVER.port, CLIENT.port} if both else set())


@pytest.mark.parametrize("most", [1, 3, 4, 50])
@pytest.mark.parametrize("ends", [12, 30])
def test_as_many_ends_are_remembered_as_the_scalar_tracker_remembers(most: int, ends: int) -> None:
    """Five clients connect in turns, and one of them twice as often; then a late packet of each comes."""
    turns = [CLIENTS[0] if number % 3 == 0 else CLIENTS[number % 5] for number in range(ends)]
    whole = [_whole(client, SERVER, number * 1_000, number) for number, client in enumerate(turns)]
    packets = [packet for each in whole for packet in each]
    for client in CLIENTS[:5]:
        late = _whole(client, SERVER, 0, ends)[3]
        assert_equal(placed([*packets, late]), [len(packets) // 2], max_connections=most)


def test_ends_that_are_no_longer_remembered_take_no_memory() -> None:
    """The same few clients connect thousands of times: the table of socket pairs does not grow, either."""
    tracker = new_columnar_tracker(max_connections=10)

    def connect(first: int, count: int) -> None:
        for number in range(first, first + count, 100):
            turns = range(number, number + 100)
            whole = (_whole(CLIENTS[turn % 5], SERVER, turn * 1_000, turn) for turn in turns)
            tracker.feed(PacketBatch.of(placed(packet for packets in whole for packet in packets)))

    tracemalloc.start()
    try:
        connect(0, 1_000)
        before, _ = tracemalloc.get_traced_memory()
        connect(1_000, 3_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 250_000


def test_records_of_a_batch_stay_as_they_are_when_its_flows_are_used_again() -> None:
    whole = [placed(_whole(client, SERVER, 0, number * SECOND)) for number, client in enumerate(CLIENTS)]
    tracker = new_columnar_tracker()
    batches = [tracker.feed(PacketBatch.of(packets)) for packets in whole]
    assert batches[0].frames.connections[0] in batches[-1].frames.connections
    scalar = new_tracker()
    wanted = [[record for packet in packets for record in scalar.feed(packet)] for packets in whole]
    for _ in range(2):
        assert [list(batch.records()) for batch in batches] == wanted


def test_a_record_that_was_asked_for_is_made_once() -> None:
    first, *others = CLIENTS[:4]
    tracker = new_columnar_tracker()
    opened = tracker.feed(PacketBatch.of(packets_between(EVENTS[:1], first, close=False)))
    (flow,) = set(opened.frames.connections.tolist())
    record = opened.openings[flow]
    for client in others:
        later = tracker.feed(PacketBatch.of(packets_between(EVENTS[:1], client)))
        assert later.openings is not opened.openings
        assert later.openings[flow] is record


def test_parts_of_a_batch_have_its_records() -> None:
    packets = interleaved([packets_between(EVENTS, client) for client in CLIENTS[:5]], Random(1))
    # The scalar tracker makes records of a connection without a SYN.
    packets = [packet for packet in packets if packet.captured_at or Random(packet.position).random() < 0.6]
    batch = new_columnar_tracker().feed(PacketBatch.of(packets))
    assert len(batch.events.changes.sequences) and batch.events.others
    records = list(batch.records())
    assert [batch.events[at] for at in range(len(batch.events))] == list(batch.events)
    assert [event.sequence for event in batch.events] == batch.events.sequences.tolist()
    for size in (1, 3, 100):
        parts = list(batch.parts(size))
        assert [record for part in parts for record in part.records()] == records
        assert all(len(list(part.records())) <= size for part in parts)
