"""The connections of this process are found, and their packets removed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from confluent_kafka import Producer

from decoders.frame.record import Direction
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import own_traffic
from streaming.feeder.own_traffic import OwnTraffic
from streaming.settings.kafka_client import Setting
from tests.decoders.wire.conversation import balances

LOOPBACK = socket.inet_aton("127.0.0.1")
PAYLOAD = b"a request of our own"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def packets(client_port: int, server_port: int) -> list[Packet]:
    """A connection's opening and a payload, as captured."""
    client, server = SocketAddress(LOOPBACK, client_port), SocketAddress(LOOPBACK, server_port)
    synthetic = SyntheticConnection(client, server)
    return [*synthetic.opened(1), *synthetic.sent(2, Direction.TO_BROKER, PAYLOAD)]


def without_own(own: OwnTraffic, captured: list[Packet], ledger: Ledger | None = None) -> list[Packet]:
    return list(own.without_own(PacketBatch.of(captured), ledger or Ledger()).packets())


def test_own_packets_are_removed_and_counted(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    ledger, own = Ledger(), OwnTraffic({port})
    with socket.create_connection(listener.getsockname()) as client:
        others = packets(1, port)
        mixed = packets(client.getsockname()[1], port) + others
        assert without_own(own, mixed, ledger) == others
    assert ledger.skipped[SkipReason.OWN] == len(PAYLOAD)
    assert ledger.packets["own"] == 4
    assert balances(ledger)


def test_a_connection_that_has_ended_is_still_known(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    own = OwnTraffic({port})
    with socket.create_connection(listener.getsockname()) as client:
        ours = client.getsockname()[1]
        without_own(own, [])
    assert without_own(own, packets(ours, port)) == []


def test_it_is_forgotten_when_its_addresses_may_be_reused(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_traffic, "REMEMBERED", 0.05)
    port = listener.getsockname()[1]
    own = OwnTraffic({port})
    with socket.create_connection(listener.getsockname()) as client:
        ours = packets(client.getsockname()[1], port)
        without_own(own, [])
    time.sleep(0.1)
    assert without_own(own, ours) == ours


def test_a_connection_that_lives_for_milliseconds_is_seen(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with OwnTraffic({port}) as own:
        with socket.create_connection(listener.getsockname()) as client:
            ours = packets(client.getsockname()[1], port)
            time.sleep(0.1)
        assert without_own(own, ours) == []


def test_one_that_is_still_connecting_is_known_by_its_own_end(listener: socket.socket) -> None:
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        ours = packets(client.getsockname()[1], listener.getsockname()[1])
        assert without_own(OwnTraffic({listener.getsockname()[1]}), ours) == []


def first_request(settings: Mapping[str, Setting]) -> bytes:
    """What librdkafka sends first when it is set up so, to a server that then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        client = {"bootstrap.servers": address, "client.id": "kipwatch-feeder", "log_level": 0}
        with Producer({**client, **settings}), server.accept()[0] as accepted:
            accepted.settimeout(10)
            return accepted.recv(65536)


def spoken(port: int, request: bytes) -> list[Packet]:
    """A connection that sends one request, as captured; none of this process's sockets has its addresses."""
    client, server = SocketAddress(LOOPBACK, 1), SocketAddress(LOOPBACK, port)
    synthetic = SyntheticConnection(client, server)
    return [*synthetic.opened(1), *synthetic.sent(2, Direction.TO_BROKER, request)]


def test_a_connection_that_ended_before_its_socket_was_read_is_known_by_the_mark() -> None:
    own = OwnTraffic({9092})
    ours = spoken(9092, first_request(own.mark.settings))
    assert without_own(own, ours) == []
    # What follows in later batches has no mark.
    assert without_own(own, packets(1, 9092)) == []


def test_the_same_software_of_another_process_is_kept() -> None:
    own, other = OwnTraffic({9092}), OwnTraffic({9092})
    others = spoken(9092, first_request(other.mark.settings))
    assert without_own(own, others) == others


def test_the_mark_elsewhere_than_in_an_api_versions_request_hides_nothing() -> None:
    own = OwnTraffic({9092})
    request = first_request(own.mark.settings)
    not_first = spoken(9092, b"another frame" + request)
    assert without_own(own, not_first) == not_first


def test_a_removed_packet_does_not_mark_its_neighbour() -> None:
    own = OwnTraffic({9092})
    others, ours = packets(2, 9092), spoken(9092, first_request(own.mark.settings))
    batch = PacketBatch.of(others + ours).chosen(np.arange(len(others)))
    assert list(own.without_own(batch, Ledger()).packets()) == others


def test_connections_of_this_process_to_other_ports_are_kept(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        ours = packets(client.getsockname()[1], listener.getsockname()[1])
        assert without_own(OwnTraffic({1}), ours) == ours
