"""Packets of excluded addresses are removed, whatever they look like, and their bytes are counted."""

from __future__ import annotations

import io
from ipaddress import ip_address, ip_network

import pytest

from decoders.frame.record import Kind
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder.excluded_traffic import ExcludedTraffic
from streaming.feeder.feeder import Feeder
from streaming.settings.configuration import Configuration, Exclude
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

REQUEST = prefixed(metadata(1))
BROKER = {4: "10.0.0.1", 6: "2001:db8::1"}


def packets(client: str) -> list[Packet]:
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
def test_addresses_and_networks(client: str, network: str, is_excluded: bool) -> None:
    sent, ledger = packets(client), Ledger()
    excluded = ExcludedTraffic([ip_network("192.0.2.0/24"), ip_network(network)])
    left = list(excluded.without_excluded(PacketBatch.of(sent), ledger).packets())
    assert left == ([] if is_excluded else sent)
    assert ledger.skipped[SkipReason.EXCLUDED] == (2 * len(REQUEST) if is_excluded else 0)
    assert ledger.packets["excluded"] == (len(sent) if is_excluded else 0)
    assert balances(ledger)


def test_packets_that_the_columns_do_not_hold_are_parsed_one_by_one() -> None:
    sent = [with_padding_of_ipv6(packet) for packet in packets("2001:db8::7")]
    others, ledger = packets("2001:db8::9"), Ledger()
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
    """The request tells the client ID. What follows is skipped on the fast path, too."""
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
    feeder.run(batches(packets("10.0.0.7"), packets("10.0.0.8") + packets("10.9.8.7")), outlet)
    assert {str(record.client) for record in outlet.records} == {"10.0.0.8:40000"}
    assert saved.getvalue().count(REQUEST) == 2
    value = feeder.registry.get_sample_value
    assert value("kipwatch_capture_bytes_total", {"fate": "skipped-excluded"}) == 4 * len(REQUEST)
    assert value("kipwatch_capture_packets_total", {"fate": "excluded"}) == 2 * len(packets("10.0.0.7"))
