"""Connections that open and close in every way: both trackers make the same records and ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Closing, Direction, Kind, Record
from decoders.tls.key_log import KeyLog
from decoders.wire.segment import Packet, SocketAddress, TcpFlag
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.wire.columnar.equality import assert_equal, interleaved, packets_between, placed
from tests.decoders.wire.columnar.forging import like
from tests.decoders.wire.conversation import (
    CLIENT,
    EVENTS,
    SECOND,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    exchanges,
    metadata,
    metadata_response,
    of_kind,
    prefixed,
)
from tests.examples import examples

SYN, SYN_ACK, ACK = 0, 1, 2
"""Places of the handshake."""
FIN, OTHER_FIN, LAST_ACK = -3, -2, -1
"""Places of the end."""
REQUEST = prefixed(metadata(1))
Change = Callable[[list[Packet]], list[Packet]]


def connection(
    client: SocketAddress = CLIENT, at: int = 0, initial: int = 0, first: Direction = TO_BROKER
) -> list[Packet]:
    """Packets of a connection with two exchanges, which one side closes first."""
    synthetic = SyntheticConnection(client, SERVER, initial_sequences=(initial, initial + 7))
    packets = synthetic.opened(at)
    for direction, data in exchanges(2):
        packets += synthetic.sent(at, direction, data)
    last = TO_CLIENT if first is TO_BROKER else TO_BROKER
    return [
        *packets,
        *synthetic.finished(at, first),
        *synthetic.finished(at, last),
        *synthetic.acknowledged(at, first),
    ]


def without(*places: int) -> Change:
    """Lose packets."""
    return lambda packets: [each for at, each in enumerate(packets) if at - len(packets) not in places]


def again(place: int, later: int) -> Change:
    """Send a packet again, some packets later."""

    def changed(packets: list[Packet]) -> list[Packet]:
        at = place % len(packets)
        return [*packets[: at + later], packets[at], *packets[at + later :]]

    return changed


def swapped(place: int) -> Change:
    """Capture a packet after the one behind it."""

    def changed(packets: list[Packet]) -> list[Packet]:
        at = place % len(packets)
        return [*packets[:at], packets[at + 1], packets[at], *packets[at + 2 :]]

    return changed


def first_packets_lost(count: int) -> Change:
    return lambda packets: packets[count:]


CHANGES: dict[str, Change] = {
    "none": list,
    "half-open": lambda packets: packets[:1],
    "no-request": lambda packets: [*packets[:3], *packets[-3:]],
    "lost-syn": first_packets_lost(1),
    "lost-handshake": first_packets_lost(3),
    "lost-syn-ack": lambda packets: [packets[SYN], *packets[ACK:]],
    "lost-fin": without(FIN),
    "lost-other-fin": without(OTHER_FIN),
    "syn-again": again(SYN, 1),
    "syn-again-behind-requests": again(SYN, 5),
    "syn-again-behind-the-end": again(SYN, 99),
    "syn-ack-again": again(SYN_ACK, 1),
    "fin-again": again(FIN, 1),
    "other-fin-again": again(OTHER_FIN, 1),
    "syn-behind-syn-ack": swapped(SYN),
    "syn-ack-behind-ack": swapped(SYN_ACK),
    "ack-behind-request": swapped(ACK),
    "fin-before-the-last-response": swapped(FIN - 1),
    "fins-swapped": swapped(FIN),
}
randoms = st.integers(0, 1_000_000_000).map(Random)
cuts = st.lists(st.integers(0, 10_000), max_size=6)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("first", [TO_BROKER, TO_CLIENT])
@pytest.mark.parametrize("initial", [0, (1 << 32) - 30])
@pytest.mark.parametrize("key_log", [None, KeyLog()])
def test_one_thing_is_unusual(change: str, first: Direction, initial: int, key_log: KeyLog | None) -> None:
    packets = placed(CHANGES[change](connection(first=first, initial=initial)))
    records = assert_equal(packets, key_log=key_log)
    assert records == assert_equal(packets, range(len(packets)), key_log=key_log)


@given(
    randoms,
    st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=12),
    cuts,
    st.booleans(),
    st.sampled_from([None, KeyLog()]),
)
@examples(20)
def test_clients_that_come_again(
    random: Random, changes: list[str], cut: list[int], watched: bool, key_log: KeyLog | None
) -> None:
    """Three ports connect again and again, some before the end of the connection before was captured."""
    conversations: list[list[Packet]] = [[], [], []]
    for number, change in enumerate(changes):
        client, at = random.randrange(3), number * random.choice([0, 1, 100]) * SECOND
        begun = connection(
            SocketAddress(CLIENT.address, 40_000 + client),
            at,
            random.choice([0, 1_000, number << 20]),
            random.choice([TO_BROKER, TO_CLIENT]),
        )
        conversations[client] += CHANGES[change](begun)
    packets = interleaved(conversations, random)
    assert_equal(packets, cut, ports={9092} if watched else set(), key_log=key_log)


def closed(records: list[Record]) -> list[tuple[Closing, Direction]]:
    return [(record.closing, record.direction) for record in of_kind(records, Kind.CLOSED)]


def test_both_sides_close_at_the_same_time() -> None:
    synthetic, unaware = (SyntheticConnection(CLIENT, SERVER) for _ in range(2))
    packets = synthetic.opened(0)
    unaware.opened(0)
    # Neither FIN acknowledges the other.
    packets += [*synthetic.finished(1, TO_BROKER), *unaware.finished(1, TO_CLIENT)]
    packets += synthetic.acknowledged(2, TO_CLIENT)
    records = assert_equal(placed(packets), range(len(packets)))
    assert closed(records) == [(Closing.FIN, TO_BROKER)]


@pytest.mark.parametrize("direction", [TO_BROKER, TO_CLIENT])
@pytest.mark.parametrize("exchanged", [0, 1, 2])
def test_a_reset(direction: Direction, exchanged: int) -> None:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    packets = synthetic.opened(0)
    for sent, data in exchanges(2)[:exchanged]:
        packets += synthetic.sent(1, sent, data)
    packets += synthetic.reset(2, direction)
    records = assert_equal(placed(packets), range(len(packets)))
    assert closed(records) == [(Closing.RST, direction)]


def test_a_syn_that_is_refused() -> None:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    packets = [*synthetic.opened(0)[:1], *synthetic.reset(1, TO_CLIENT)]
    records = assert_equal(placed(packets), range(2))
    assert closed(records) == [(Closing.RST, TO_CLIENT)]


def test_a_syn_with_a_request() -> None:
    """Of TCP Fast Open (RFC 7413), to a server that acknowledges the SYN alone: it takes no request."""
    syn, *packets = SyntheticConnection(CLIENT, SERVER).opened(0)
    packets.insert(0, like(syn, flags=TcpFlag.SYN, payload=REQUEST))
    records = assert_equal(placed(packets), range(len(packets)))
    assert [record.kind for record in records] == [Kind.OPENED]


@pytest.mark.parametrize("acknowledged", [0, 1, len(REQUEST)])
@pytest.mark.parametrize("repeated", [0, 1])
def test_a_syn_ack_that_acknowledges_what_the_syn_carries(acknowledged: int, repeated: int) -> None:
    """Of TCP Fast Open (RFC 7413): the client sends again what the server has not taken."""
    synthetic = SyntheticConnection(CLIENT, SERVER, initial_sequences=(acknowledged, 0))
    syn, syn_ack, ack = synthetic.opened(0)
    syn = like(syn, flags=TcpFlag.SYN, sequence=-acknowledged, payload=REQUEST)
    packets = [syn, syn_ack, *[syn_ack] * repeated, ack]
    packets += synthetic.sent(0, TO_BROKER, REQUEST[acknowledged:])
    packets += synthetic.sent(0, TO_CLIENT, prefixed(metadata_response(1)))
    packets += [*synthetic.finished(1, TO_BROKER), *synthetic.finished(1, TO_CLIENT)]
    packets += [syn_ack] * repeated
    records = assert_equal(placed(packets), range(len(packets)))
    assert [record.kind for record in records] == [Kind.OPENED, Kind.REQUEST, Kind.RESPONSE, Kind.CLOSED]
    assert closed(records) == [(Closing.FIN, TO_BROKER)]


def test_behind_a_syn_with_a_request_another_connection_is_another() -> None:
    """The benign twin: the SYN-ACK acknowledges more than the SYN had."""
    syn = like(SyntheticConnection(CLIENT, SERVER).opened(0)[SYN], flags=TcpFlag.SYN, payload=REQUEST)
    others = SyntheticConnection(CLIENT, SERVER, initial_sequences=(len(REQUEST) + 1, 0)).opened(1)
    records = assert_equal(placed([syn, others[SYN_ACK]]), range(2))
    assert closed(records) == [(Closing.REPLACED, Direction.NONE)]


def test_a_fin_with_a_request() -> None:
    synthetic = SyntheticConnection(CLIENT, SERVER)
    packets = synthetic.opened(0)
    (request,), _ = synthetic.sent(1, TO_BROKER, REQUEST), synthetic.finished(1, TO_BROKER)
    packets.append(like(request, flags=TcpFlag.FIN | TcpFlag.ACK, payload=REQUEST))
    packets += synthetic.finished(2, TO_CLIENT)
    records = assert_equal(placed(packets), range(len(packets)))
    assert [record.kind for record in records] == [Kind.OPENED, Kind.REQUEST, Kind.CLOSED]
    assert closed(records) == [(Closing.FIN, TO_BROKER)]


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
@examples(60)
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
