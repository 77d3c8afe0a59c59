"""A scripted exchange as packets and as a pcap file."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

from decoders.frame.record import Direction, Endpoint, Kind
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from tests.decoders.tls.writer import TlsWriter
from tests.decoders.wire.encrypted import DIRECTIONS, SIDES
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement


def packets_of(exchange: Exchange, tls: TlsWriter | None = None) -> list[Packet]:
    """Return the packets of an exchange, over TLS if there is a writer of it.

    A gap is bytes that were sent and not captured.
    """
    first, packets = exchange.records[0], list[Packet]()
    connection = SyntheticConnection(_socket_address(first.client), _socket_address(first.server))
    for record in exchange.records:
        match record.kind:
            case Kind.OPENED:
                packets += connection.opened(record.captured_at)
                for side, data in tls.handshake() if tls else ():
                    packets += connection.sent(record.captured_at, DIRECTIONS[side], data)
            case Kind.CLOSED:
                packets += connection.finished(record.captured_at, Direction.TO_BROKER)
                packets += connection.finished(record.captured_at, Direction.TO_CLIENT)
            case Kind.PRINCIPAL:
                # It is in the request before.
                continue
            case Kind.GAP:
                connection.sent(record.captured_at, record.direction, bytes(record.true_length))
            case _:
                data = struct.pack(">i", len(record.frame)) + record.frame
                if tls:
                    data = tls.data(SIDES[record.direction], data)
                packets += connection.sent(record.captured_at, record.direction, data)
    return packets


def write_capture(path: Path, exchange: Exchange) -> Path:
    """Write the exchange's packets as a pcap file."""
    return write_packets(path, packets_of(exchange))


def write_packets(path: Path, packets: Iterable[Packet]) -> Path:
    """Write packets as a pcap file."""
    with path.open("wb") as stream:
        writer = PcapWriter(stream, LinkType.ETHERNET)
        for packet in packets:
            writer.write(packet)
    return path


def conforming(client: str = "10.0.0.1:40000") -> Exchange:
    """Three frames that break no rule."""
    exchange = Exchange(client=client)
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")
    exchange.close()
    return exchange


def violating(name: str = "RP Console") -> Exchange:
    """Four frames with two violations: a malformed software name, and another instance ID, twice."""
    exchange = Exchange()
    request = exchange.request(
        "ApiVersions", 6, SOFTWARE | {"clientSoftwareName": name}, client_id="app", instance_id=ID_A
    )
    exchange.respond(request, advertisement(42))
    for _ in range(2):
        exchange.request("Metadata", 14, instance_id=ID_B)
    exchange.close()
    return exchange


def _socket_address(endpoint: Endpoint) -> SocketAddress:
    host, _, port = endpoint.rpartition(":")
    return SocketAddress(ipaddress.ip_address(host).packed, int(port))
