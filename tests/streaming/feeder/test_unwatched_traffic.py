"""Packets of this process and of excluded addresses are removed, and their bytes are counted."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Mapping
from ipaddress import ip_address, ip_network

import numpy as np
import pytest
from confluent_kafka import Producer

from decoders.frame.record import Direction, Kind
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import unwatched_traffic
from streaming.feeder.feeder import Feeder
from streaming.feeder.unwatched_traffic import ExcludedTraffic, OwnTraffic
from streaming.settings.configuration import Configuration, Exclude
from streaming.settings.kafka_client import Setting
from tests.decoders.wire.conversation import (
    CLIENT,
    SERVER,
    TO_BROKER,
    TO_CLIENT,
    balances,
    metadata,
    prefixed,
)
from tests.streaming.feeder.test_feeder import FakeOutlet, batches

LOOPBACK = socket.inet_aton("127.0.0.1")
PAYLOAD = b"a request of our own"
REQUEST = prefixed(metadata(1))
BROKER = {4: "10.0.0.1", 6: "2001:db8::1"}


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


def test_a_connection_is_forgotten_when_its_addresses_may_be_reused(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unwatched_traffic, "REMEMBERED", 0.05)
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


def test_a_connection_that_is_not_established_is_known_by_its_own_end(listener: socket.socket) -> None:
    with socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        ours = packets(client.getsockname()[1], listener.getsockname()[1])
        assert without_own(OwnTraffic({listener.getsockname()[1]}), ours) == []


def first_request(settings: Mapping[str, Setting]) -> bytes:
    """The first request of librdkafka with the mark, to a server that then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        client = {"bootstrap.servers": address, "client.id": "kipwatch-feeder", "log_level": 0}
        with Producer({**client, **settings}), server.accept()[0] as accepted:
            accepted.settimeout(10)
            return accepted.recv(65536)


def spoken(port: int, request: bytes, address: bytes = LOOPBACK) -> list[Packet]:
    """A captured connection with one request, of no socket of this process."""
    ends = SocketAddress(address, 1), SocketAddress(LOOPBACK.rjust(len(address), b"\0"), port)
    synthetic = SyntheticConnection(*ends)
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


@pytest.mark.parametrize("address", [CLIENT.address, ip_address("2001:db8::5").packed], ids=["4", "6"])
def test_a_stranger_who_repeats_the_mark_is_kept(address: bytes) -> None:
    own = OwnTraffic({9092})
    request = first_request(own.mark.settings)
    strangers = spoken(9092, request, address)
    assert without_own(own, strangers) == strangers


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


def opened_by(client: str) -> list[Packet]:
    """A connection of a client, which sends a request and receives as many bytes."""
    address = ip_address(client)
    broker = ip_address(BROKER[address.version])
    synthetic = SyntheticConnection(SocketAddress(address.packed, 40_000), SocketAddress(broker.packed, 9092))
    sent = [*synthetic.opened(1), *synthetic.sent(2, TO_BROKER, REQUEST)]
    return sent + synthetic.sent(3, TO_CLIENT, REQUEST)


def with_padding_of_ipv6(packet: Packet) -> Packet:
    """The same packet with a hop-by-hop header, which only the scalar reader parses."""
    data = bytearray(packet.data)
    data[14 + 4 : 14 + 6] = (int.from_bytes(data[14 + 4 : 14 + 6]) + 8).to_bytes(2)
    data[14 + 6 : 14 + 7] = bytes([0])
    data[54:54] = bytes([6, 0, 1, 4, 0, 0, 0, 0])
    return packet._replace(data=bytes(data), original_length=len(data))


@pytest.mark.parametrize(
    ("client", "network", "is_excluded"),
    [
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.1", True),
        ("10.0.0.7", "10.0.0.4/30", True),
        ("10.0.0.7", "10.0.0.8/29", False),
        ("255.1.2.3", "255.0.0.0/8", True),
        ("10.0.0.7", "::/0", False),
        ("2001:db8::7", "2001:db8::7", True),
        ("2001:db8::7", "2001:db8::/32", True),
        ("fe80::7:1", "fe80::7:0/112", True),
        ("2001:db8::7", "2001:db8::8", False),
        ("2001:db8::7", "0.0.0.0/0", False),
    ],
)
def test_connections_of_excluded_addresses_and_networks_are_removed(
    client: str, network: str, is_excluded: bool
) -> None:
    sent, ledger = opened_by(client), Ledger()
    excluded = ExcludedTraffic([ip_network("192.0.2.0/24"), ip_network(network)])
    left = list(excluded.without_excluded(PacketBatch.of(sent), ledger).packets())
    assert left == ([] if is_excluded else sent)
    assert ledger.skipped[SkipReason.EXCLUDED] == (2 * len(REQUEST) if is_excluded else 0)
    assert ledger.packets["excluded"] == (len(sent) if is_excluded else 0)
    assert balances(ledger)


@pytest.mark.parametrize("kept", [1_500, 100], ids=["whole", "cut by the kernel"])
def test_packets_that_the_columns_do_not_hold_are_parsed_one_by_one(kept: int) -> None:
    whole = [with_padding_of_ipv6(packet) for packet in opened_by("2001:db8::7")]
    sent = [packet._replace(data=packet.data[:kept]) for packet in whole]
    assert (sent == whole) == (kept == 1_500)
    others, ledger = opened_by("2001:db8::9"), Ledger()
    excluded = ExcludedTraffic([ip_network("2001:db8::7")])
    assert list(excluded.without_excluded(PacketBatch.of(sent + others), ledger).packets()) == others
    assert ledger.skipped[SkipReason.EXCLUDED] == 2 * len(REQUEST)


def test_client_ids_are_globs() -> None:
    excludes = Configuration(
        exclude=[
            Exclude("10.0.0.7"),
            Exclude(client_id="kipwatch-feeder"),
            Exclude(client_id="broker-*-fetcher-*"),
        ]
    ).excludes_client
    assert excludes
    named = ["kipwatch-feeder", "broker-2-fetcher-0", "kipwatch-feeder-2", "broker-2", "KIPWATCH-FEEDER", ""]
    assert list(map(excludes, named)) == [True, True, False, False, False, False]
    assert Configuration(exclude=[Exclude("10.0.0.7")]).excludes_client is None


def test_the_feeder_publishes_the_first_request_of_an_excluded_client_and_counts_the_rest() -> None:
    """The first request has the client ID. Later ones are skipped on the fast path, too."""
    configuration = Configuration(exclude=[Exclude(client_id="client")])
    synthetic, outlet = SyntheticConnection(CLIENT, SERVER), FakeOutlet()
    first = [*synthetic.opened(1), *synthetic.sent(2, TO_BROKER, REQUEST)]
    rest = [
        synthetic.sent(at, TO_CLIENT, REQUEST) + synthetic.sent(at, TO_BROKER, REQUEST) for at in range(3, 9)
    ]
    feeder = Feeder(configuration, run=1)
    feeder.run(batches(first, *rest), outlet)
    assert [record.kind for record in outlet.records] == [Kind.OPENED, Kind.REQUEST, Kind.GAP]
    value = feeder.registry.get_sample_value
    assert value("kipwatch_capture_bytes_total", {"fate": "framed"}) == len(REQUEST)
    assert value("kipwatch_capture_bytes_total", {"fate": "skipped-excluded"}) == 12 * len(REQUEST)
    assert value("kipwatch_capture_opaque_connections_total") == 0


def test_the_feeder_neither_publishes_nor_saves_them_and_its_metrics_count_them() -> None:
    configuration = Configuration(exclude=[Exclude("10.0.0.7"), Exclude("10.9.0.0/16")])
    outlet, saved = FakeOutlet(), io.BytesIO()
    feeder = Feeder(configuration, run=1, save=saved)
    feeder.run(
        batches(opened_by("10.0.0.7"), opened_by("10.0.0.8") + opened_by("10.9.8.7")),
        outlet,
    )
    assert {str(record.client) for record in outlet.records} == {"10.0.0.8:40000"}
    assert saved.getvalue().count(REQUEST) == 2
    value = feeder.registry.get_sample_value
    assert value("kipwatch_capture_bytes_total", {"fate": "skipped-excluded"}) == 4 * len(REQUEST)
    assert value("kipwatch_capture_packets_total", {"fate": "excluded"}) == 2 * len(opened_by("10.0.0.7"))
