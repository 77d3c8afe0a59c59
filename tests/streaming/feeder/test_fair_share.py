"""Clients that send only packets for the slow path are given up, and all others are followed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import ip_network
from typing import cast

import numpy as np
import pytest

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.segments import words_of
from decoders.wire.ledger import SkipReason
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder.capture import InterfaceCapture
from streaming.feeder.fair_share import GIVEN_UP_FOR, FairShares
from streaming.feeder.feeder import Feeder
from streaming.feeder.packet_filter import Network
from streaming.log import configure_log
from streaming.settings.configuration import Configuration
from tests.decoders.wire.columnar.equality import packets_between, placed
from tests.decoders.wire.conversation import (
    SERVER,
    TO_BROKER,
    exchanges,
    metadata,
    new_columnar_tracker,
    prefixed,
    request,
)
from tests.streaming.feeder.test_feeder import FakeCapture, FakeOutlet

SLOW = 1_000
"""Packets on the slow path."""
BUSY = 0.95
"""Seconds of a second."""


def swapped(client: SocketAddress, segments: int) -> list[Packet]:
    """A client whose segments are captured swapped in pairs: the second one of each before the first."""
    connection = SyntheticConnection(client, SERVER)
    packets = connection.opened(0) + connection.sent(0, TO_BROKER, prefixed(metadata(1)))
    packets += connection.sent(0, TO_BROKER, prefixed(metadata(2).ljust(1_000_000, b"x"))[:8])
    for _ in range(segments // 2):
        first, second = (connection.sent(0, TO_BROKER, b"x" * 10) for _ in range(2))
        packets += second + first
    return packets


def client(number: int) -> SocketAddress:
    return SocketAddress(bytes([10, 1, 0, number]), 40_000)


class Following:
    """A tracker behind fair shares."""

    def __init__(self) -> None:
        self.tracker, self.shares = new_columnar_tracker(), FairShares({9092})
        self.frames = 0

    def feed(self, packets: Sequence[Packet], second: float, busy: float = BUSY) -> list[Network]:
        """Feed packets, as if that took so long and ended at a second. Returns who is given up."""
        batch = PacketBatch.of(placed(packets))
        followed = self.shares.without_given_up(batch, self.tracker.ledger, second)
        self.frames += len(self.tracker.feed(followed).frames.sequences)
        return list(self.shares.note(self.tracker.slow_sockets, batch.size, busy, second))


ATTACKER = SocketAddress(bytes([10, 2, 0, 1]), 50_000)


def test_a_client_that_takes_the_time_of_all_is_given_up_and_the_others_lose_nothing() -> None:
    following, attack = Following(), swapped(ATTACKER, 2 * SLOW)
    honest = [packet for number in range(20) for packet in packets_between(exchanges(4), client(number))]
    alone = Following()
    alone.feed(honest, 1.0)
    assert following.feed(honest[:100] + attack[:SLOW], 1.0) == [ip_network("10.2.0.1/32")]
    assert following.feed(honest[100:] + attack[SLOW:], 2.0) == []
    ledger = following.tracker.ledger
    assert following.tracker.slow_sockets.size == 0
    assert ledger.packets["given-up"] == len(attack) - SLOW
    assert ledger.skipped[SkipReason.GIVEN_UP] == 10 * (len(attack) - SLOW)
    assert following.frames == alone.frames + 1
    assert ledger.lost == 0


def test_a_client_that_was_given_up_is_followed_again_after_a_minute() -> None:
    following = Following()
    following.feed(swapped(ATTACKER, SLOW), 1.0)
    later = packets_between(exchanges(1), SocketAddress(ATTACKER.address, 50_001))
    following.feed(later, 1.0 + GIVEN_UP_FOR - 1, 0.0)
    assert following.tracker.ledger.packets["given-up"] == len(later)
    following.feed(later, 1.0 + GIVEN_UP_FOR, 0.0)
    assert following.tracker.ledger.packets["given-up"] == len(later)


def merged(client: SocketAddress, packets: int) -> list[Packet]:
    """A client whose packets the network card has merged, each with 2,000 requests for the slow path."""
    connection = SyntheticConnection(client, SERVER)
    shaking = prefixed(request("SaslHandshake", 1, 5, mechanism="PLAIN"))
    sent = connection.opened(0)
    for _ in range(packets):
        sent += connection.sent(0, TO_BROKER, 2_000 * shaking)
    return sent


def test_a_packet_counts_for_all_that_it_completes() -> None:
    """Ten of them take a second, and one is no reason to give up a client beside one that sends many."""
    assert Following().feed(merged(ATTACKER, 10), 1.0) == [ip_network("10.2.0.1/32")]
    packets = [*merged(client(1), 1), *swapped(ATTACKER, 6 * SLOW)]
    assert Following().feed(packets, 1.0) == [ip_network("10.2.0.1/32")]


def test_nobody_is_given_up_while_there_is_time() -> None:
    assert Following().feed(swapped(ATTACKER, SLOW), 1.0, 0.7) == []


def test_nobody_is_given_up_for_a_few_packets_among_many() -> None:
    sockets = np.tile(words_of(ATTACKER, SERVER), (SLOW, 1))
    assert list(FairShares({9092}).note(sockets, 1_000 * SLOW, BUSY, 1.0)) == []


def test_nobody_is_given_up_for_ordinary_packets() -> None:
    assert Following().feed(packets_between(exchanges(50), ATTACKER), 1.0) == []


def test_nobody_is_given_up_where_all_send_as_many() -> None:
    packets = [packet for number in range(11) for packet in swapped(client(number), SLOW // 11)]
    assert Following().feed(packets, 1.0) == []


def test_of_a_few_heavy_clients_as_many_are_followed_as_there_is_time_for() -> None:
    packets = [packet for number in range(4) for packet in swapped(client(number), SLOW // 4)]
    given_up = Following().feed(packets, 1.0)
    assert 0 < len(given_up) < 4


def test_the_address_of_a_broker_is_given_up_only_as_a_client() -> None:
    """Anybody can forge the sender of a packet."""
    following = Following()
    forged = swapped(SocketAddress(SERVER.address, 50_000), SLOW)
    assert following.feed(forged, 1.0) == [ip_network(SERVER.address)]
    following.feed(packets_between(exchanges(4), client(1)), 2.0)
    assert following.tracker.ledger.packets["given-up"] == 0


@pytest.mark.parametrize(
    ("addresses", "given_up"),
    [(1_000, ["fd00::/64"]), (500, []), (1, ["fd00::/128"])],
)
def test_an_address_of_ipv6_costs_nothing(addresses: int, given_up: list[str]) -> None:
    server = SocketAddress(bytes([0x20, 1, *bytes(13), 2]), 9092)
    pairs = [
        words_of(SocketAddress(bytes([0xFD, *bytes(7)]) + number.to_bytes(8), 5_000), server)
        for number in range(addresses)
    ]
    sockets = np.tile(np.array(pairs), (max(1, SLOW // addresses), 1))
    assert [str(each) for each in FairShares({9092}).note(sockets, len(sockets), BUSY, 1.0)] == given_up


def test_without_watched_ports_nobody_is_the_client() -> None:
    sockets = np.tile(words_of(ATTACKER, SERVER), (SLOW, 1))
    assert list(FairShares(()).note(sockets, len(sockets), BUSY, 1.0)) == []


def attacked(segments: int, capture: object = None) -> Feeder:
    """A feeder that an attacker alone has kept busy."""
    attack = swapped(ATTACKER, segments)
    batches = [PacketBatch.of(placed(attack[begin : begin + 500])) for begin in range(0, len(attack), 500)]
    feeder = Feeder(Configuration(), run=1, capture=cast(InterfaceCapture, capture))
    feeder.run(iter(batches), FakeOutlet())
    return feeder


def test_nobody_is_given_up_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read as fast as it can be, and its packets wait."""
    value = attacked(10_000).registry.get_sample_value
    assert not value("kipwatch_capture_packets_total", {"fate": "given-up"})
    assert "given-up" not in {json.loads(line)["feeder"] for line in capsys.readouterr().out.splitlines()}


def test_a_feeder_names_who_is_given_up_and_counts_what_is_not_followed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_log()
    feeder = attacked(40_000, FakeCapture())
    events = map(json.loads, capsys.readouterr().out.splitlines())
    (named,) = (event["client"] for event in events if event.get("feeder") == "given-up")
    assert named == "10.2.0.1/32"
    value = feeder.registry.get_sample_value
    assert (value("kipwatch_capture_packets_total", {"fate": "given-up"}) or 0) > 10_000
    assert (value("kipwatch_capture_bytes_total", {"fate": "skipped-given-up"}) or 0) > 100_000
