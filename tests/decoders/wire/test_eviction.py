"""Who is evicted when strangers open more connections than a tracker follows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Record
from decoders.wire.eviction import Standing, closed_at_once, max_half_open
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.equality import assert_equal, interleaved, placed, scalar
from tests.decoders.wire.conversation import CLIENT, SERVER, TO_BROKER, TO_CLIENT, exchanges
from tests.examples import examples

Come = Callable[[SyntheticConnection], list[Packet]]
"""Writes a connection that comes so far."""


def unanswered(connection: SyntheticConnection) -> list[Packet]:
    return connection.opened(0)[:1]


def answered(connection: SyntheticConnection) -> list[Packet]:
    return connection.opened(0)[:2]


def silent(connection: SyntheticConnection) -> list[Packet]:
    return connection.opened(0)


def speaking(connection: SyntheticConnection) -> list[Packet]:
    packets = connection.opened(0)
    for direction, data in exchanges(1):
        packets += connection.sent(0, direction, data)
    return packets


def joined(connection: SyntheticConnection) -> list[Packet]:
    return speaking(connection)[3:]


def ended(connection: SyntheticConnection) -> list[Packet]:
    return speaking(connection) + connection.reset(0, TO_BROKER)


def begun(connection: SyntheticConnection) -> list[Packet]:
    """A handshake, and a frame without its end."""
    return connection.opened(0) + connection.sent(0, TO_BROKER, exchanges(1)[0][1][:20])


WAYS: list[Come] = [unanswered, answered, silent, speaking, joined, ended, begun]


def connect(come: Come, number: int) -> list[Packet]:
    client = SocketAddress(CLIENT.address, 20_000 + number)
    return come(SyntheticConnection(client, SERVER, initial_sequences=(number, number)))


def flood(come: Come, count: int, first: int = 1_000) -> list[Packet]:
    return [packet for number in range(first, first + count) for packet in connect(come, number)]


def evicted(records: list[Record]) -> list[int]:
    """The numbers of the connections that were evicted."""
    ports = (int(each.client.split(":")[1]) for each in records if each.closing is Closing.EVICTED)
    return [port - 20_000 for port in ports]


@pytest.mark.parametrize("come", [unanswered, answered])
def test_a_forged_flood_evicts_nobody_who_connected(come: Come) -> None:
    honest = connect(silent, 1) + connect(speaking, 2)
    records = assert_equal(placed(honest + flood(come, 500)), (70, 300), max_connections=20)
    assert len(evicted(records)) == 500 - max_half_open(20)
    assert min(evicted(records)) >= 1_000


def test_a_flood_of_handshakes_evicts_those_that_never_spoke() -> None:
    honest = connect(speaking, 1) + connect(silent, 2)
    records = assert_equal(placed(honest + flood(silent, 100)), (50,), max_connections=20)
    assert evicted(records)[0] == 2
    assert 1 not in evicted(records)


def test_a_flood_of_requests_evicts_the_one_that_was_silent_longest() -> None:
    again = SyntheticConnection(SocketAddress(CLIENT.address, 20_001), SERVER, initial_sequences=(1, 1))
    first = speaking(again)
    packets = [*first, *connect(speaking, 2), *again.acknowledged(0, TO_CLIENT), *flood(speaking, 19)]
    assert evicted(assert_equal(placed(packets), (50,), max_connections=20)) == [2]


def test_many_are_evicted_at_once() -> None:
    records, _ = scalar(placed(flood(silent, 1_281)), max_connections=1_280)
    assert len(evicted(records)) == closed_at_once(1_280) == 10


def test_the_answer_to_a_forged_segment_shows_no_client() -> None:
    standing = Standing.UNSEEN
    for direction, has_bytes in ((TO_BROKER, True), (TO_CLIENT, False), (TO_CLIENT, True)):
        standing = standing.after(direction, has_bytes=has_bytes)
        assert standing.is_half_open
    assert standing.after(TO_BROKER, has_bytes=False) is Standing.SILENT


@given(
    st.lists(st.sampled_from(WAYS), min_size=8, max_size=60),
    st.sampled_from([1, 2, 5, 130]),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
    st.lists(st.integers(0, 10_000), max_size=4),
)
@examples(60)
def test_both_trackers_evict_the_same(
    ways: list[Come], most: int, repeated: int, random: Random, cuts: list[int]
) -> None:
    ways = ways * (5 if most == 130 else 1)
    conversations = [connect(come, number) for number, come in enumerate(ways)]
    packets = interleaved([each for each in conversations if each], random)
    for _ in range(repeated):
        packets.insert(random.randrange(len(packets)), random.choice(packets))
    assert_equal(placed(packets), cuts, max_connections=most)
