"""Connections that open and close in every way: both trackers make the same records and ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Direction, Kind
from decoders.tls.key_log import KeyLog
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.equality import assert_equal, interleaved, packets_between, placed
from tests.decoders.wire.conversation import CLIENT, EVENTS, SECOND, SERVER, TO_BROKER, TO_CLIENT
from tests.examples import examples

randoms = st.integers(0, 1_000_000_000).map(Random)
cuts = st.lists(st.integers(0, 10_000), max_size=6)
some = examples(60)


def only_for_the_scalar_tracker(packet: Packet) -> Packet:
    """Tag a packet with an old type of VLAN, which the columnar tracker does not parse."""
    return packet._replace(
        data=packet.data[:12] + b"\x91\0\0\7" + packet.data[12:], original_length=packet.original_length + 4
    )


def connection_of(
    random: Random, client: SocketAddress, start: int, sequences: tuple[int, int]
) -> list[Packet]:
    """Packets of a connection of which both sides end when they like, even while the other goes on."""
    connection = SyntheticConnection(client, SERVER, initial_sequences=sequences)
    packets = connection.opened(start)
    ends = [random.choice([TO_BROKER, TO_CLIENT]) for _ in range(random.randrange(4))]
    events: list[tuple[Direction, bytes | None]] = [*EVENTS[: random.randrange(12)]]
    for direction in ends:
        events.insert(random.randrange(len(events) + 1), (direction, None))
    for number, (direction, data) in enumerate(events):
        at = start + number * SECOND
        if data is not None:
            packets += connection.sent(at, direction, data)
        elif random.random() < 0.2:
            packets += connection.reset(at, direction)
        else:
            packets += connection.finished(at, direction)
        if random.random() < 0.7:
            packets += connection.acknowledged(at, TO_CLIENT if direction is TO_BROKER else TO_BROKER)
    return packets


def disturbed(random: Random, packets: list[Packet], rate: float) -> Iterator[Packet]:
    for packet in packets:
        draw = random.random()
        if draw >= rate:
            yield packet
        elif draw < rate / 3:
            yield from (packet, packet)
        elif draw < rate / 2:
            yield only_for_the_scalar_tracker(packet)


@given(
    randoms,
    st.sampled_from([0.0, 0.0, 0.1, 0.3]),
    st.sampled_from([0, (1 << 32) - 40]),
    cuts,
    st.sampled_from([None, KeyLog()]),
)
@some
def test_connections_open_and_close_in_any_way(
    random: Random, rate: float, initial: int, cut: list[int], key_log: KeyLog | None
) -> None:
    """Each of three clients connects twice from the same port."""
    conversations = []
    for client in range(3):
        address = SocketAddress(CLIENT.address, 40_000 + client)
        twice = [
            *connection_of(random, address, 0, (initial, initial)),
            *connection_of(random, address, 20 * SECOND, (initial + 5_000, initial + 7_000)),
        ]
        conversations.append(list(disturbed(random, twice, rate)))
    assert_equal(interleaved(conversations, random), cut, key_log=key_log)


def test_a_side_that_has_closed_still_receives() -> None:
    connection = SyntheticConnection(CLIENT, SERVER)
    (_, first), (_, answer), *_ = EVENTS
    packets = [
        *connection.opened(0),
        *connection.sent(1, TO_BROKER, first),
        *connection.finished(2, TO_BROKER),
        *connection.acknowledged(2, TO_CLIENT),
        *connection.sent(3, TO_CLIENT, answer),
        *connection.acknowledged(3, TO_BROKER),
        *connection.finished(4, TO_CLIENT),
        *connection.acknowledged(4, TO_BROKER),
    ]
    records = assert_equal(placed(packets), range(len(packets)))
    assert [record.kind for record in records] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]
    assert (records[-1].closing, records[-1].direction) == (Closing.FIN, TO_BROKER)


def test_sockets_that_are_used_again_behind_a_tag_that_only_one_tracker_parses() -> None:
    """The columnar tracker must not take the second connection's packets for those after a close."""
    first = packets_between(EVENTS)
    second = packets_between(EVENTS[:1])[3:]
    second[0] = only_for_the_scalar_tracker(second[0])
    late = [packet._replace(captured_at=packet.captured_at + 1_000 * SECOND) for packet in second]
    assert_equal(placed([*first, *late]))
