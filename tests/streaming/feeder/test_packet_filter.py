"""The program of the packet filter, run by a small BPF interpreter on real packets."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from decoders.wire.segment import EXTENSION_HEADERS, LinkType, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import packet_filter
from streaming.feeder.packet_filter import (
    ACCEPTED_BYTES,
    EXCLUDED_BYTES,
    MAX_NETWORKS,
    MAX_PORTS,
    BpfInstruction,
    machine_code,
    tcp_ports_filter,
)

MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS of linux/bpf_common.h."""
V4 = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
V6 = (bytes(15) + b"\x01", bytes(15) + b"\x02")


def run(program: list[BpfInstruction], packet: bytes) -> int:
    """Run a program as the kernel does: a load beyond the end of the packet rejects it."""
    accumulator = index = at = 0
    while True:
        code, when_true, when_false, operand = program[at]
        at += 1
        place = operand + (index if code == packet_filter.LOAD_HALF_INDEXED else 0)
        match code:
            case packet_filter.RETURN:
                return operand
            case packet_filter.AND:
                accumulator &= operand
            case packet_filter.JUMP:
                at += operand
            case packet_filter.JUMP_IF_EQUAL:
                at += when_true if accumulator == operand else when_false
            case packet_filter.JUMP_IF_ANY_BIT:
                at += when_true if accumulator & operand else when_false
            case packet_filter.LOAD_BYTE | packet_filter.LOAD_IP_HEADER_LENGTH if place >= len(packet):
                return 0
            case packet_filter.LOAD_BYTE:
                accumulator = packet[place]
            case packet_filter.LOAD_IP_HEADER_LENGTH:
                index = 4 * (packet[place] & 0x0F)
            case packet_filter.LOAD_WORD | packet_filter.LOAD_HALF | packet_filter.LOAD_HALF_INDEXED:
                size = 4 if code == packet_filter.LOAD_WORD else 2
                if place + size > len(packet):
                    return 0
                accumulator = int.from_bytes(packet[place : place + size])
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


def packets(addresses: tuple[bytes, bytes], client_port: int, server_port: int) -> list[bytes]:
    """One packet in each direction, on Ethernet."""
    client, server = (
        SocketAddress(*pair) for pair in zip(addresses, (client_port, server_port), strict=True)
    )
    return [packet.data for packet in SyntheticConnection(client, server).opened(0)[:2]]


def with_options(packet: bytes) -> bytes:
    """The same IPv4 packet with eight bytes of options."""
    return packet[:14] + bytes([0x47]) + packet[15:34] + bytes(8) + packet[34:]


@pytest.mark.parametrize("addresses", [V4, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(
    ("ports", "accepted"), [({9092}, True), ({1, 9092}, True), ({9093}, False), (set(), True)]
)
def test_both_directions_of_the_ports_are_accepted(
    addresses: tuple[bytes, bytes], ports: set[int], accepted: bool
) -> None:
    program = tcp_ports_filter(ports, LinkType.ETHERNET)
    for packet in packets(addresses, 40_000, 9092):
        assert run(program, packet) == (ACCEPTED_BYTES if accepted else 0)
        assert run(tcp_ports_filter(ports, LinkType.RAW), packet[14:]) == (ACCEPTED_BYTES if accepted else 0)


def test_ports_are_found_behind_ip_options() -> None:
    program = tcp_ports_filter({9092}, LinkType.ETHERNET)
    assert all(run(program, with_options(packet)) for packet in packets(V4, 40_000, 9092))
    assert not any(run(program, with_options(packet)) for packet in packets(V4, 40_000, 9093))


@pytest.mark.parametrize(
    "tags", [b"\x81\x00\x00\x07", b"\x88\xa8\x00\x05\x81\x00\x00\x07"], ids=["one", "two"]
)
@pytest.mark.parametrize("addresses", [V4, V6], ids=["IPv4", "IPv6"])
def test_ports_are_found_behind_vlan_tags(addresses: tuple[bytes, bytes], tags: bytes) -> None:
    program = tcp_ports_filter(range(9043, 9043 + MAX_PORTS), LinkType.ETHERNET)
    for packet in packets(addresses, 40_000, 9092):
        assert run(program, packet[:12] + tags + packet[12:])
    for packet in packets(addresses, 40_000, 9093):
        assert not run(program, packet[:12] + tags + packet[12:])


@pytest.mark.parametrize("header", EXTENSION_HEADERS)
def test_ipv6_with_extension_headers_is_left_to_the_reader(header: int) -> None:
    packet = bytearray(packets(V6, 40_000, 9093)[0])
    packet[14 + 6] = header
    assert run(tcp_ports_filter({9092}, LinkType.ETHERNET), bytes(packet))


def test_other_link_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="no filter for link type"):
        tcp_ports_filter({9092}, LinkType.LINUX_SLL)


def test_other_protocols_and_later_fragments_are_rejected() -> None:
    for ports in ({9092}, set[int]()):
        program = tcp_ports_filter(ports, LinkType.ETHERNET)
        packet = packets(V4, 40_000, 9092)[0]
        udp, fragment = bytearray(packet), bytearray(packet)
        udp[14 + 9], fragment[14 + 7] = 17, 8
        arp = bytes(12) + b"\x08\x06\x00\x01" + bytes(26)
        udp6 = bytearray(packets(V6, 40_000, 9092)[0])
        udp6[14 + 6] = 17
        assert [run(program, bytes(data)) for data in (udp, fragment, arp, udp6, packet[:20])] == [0] * 5


@pytest.mark.parametrize(
    ("addresses", "network", "is_excluded"),
    [
        (V4, "10.0.0.1", True),
        (V4, "10.0.0.2/32", True),
        (V4, "10.0.0.0/8", True),
        (V4, "0.0.0.0/0", True),
        (V4, "10.0.0.3", False),
        (V4, "::/0", False),
        (V6, "::1", True),
        (V6, "::/64", True),
        (V6, "::/0", True),
        (V6, "::3", False),
        (V6, "fe80::/10", False),
        (V6, "0.0.0.0/0", False),
    ],
)
def test_packets_of_excluded_networks_are_cut_in_both_directions(
    addresses: tuple[bytes, bytes], network: str, is_excluded: bool
) -> None:
    """Packets of other ports are rejected nevertheless."""
    excluded = [ip_network("192.0.2.0/24"), ip_network("2001:db8::/32"), ip_network(network)]
    program = tcp_ports_filter({9092}, LinkType.ETHERNET, excluded)
    raw = tcp_ports_filter({9092}, LinkType.RAW, excluded)
    for packet in packets(addresses, 40_000, 9092):
        expected = EXCLUDED_BYTES if is_excluded else ACCEPTED_BYTES
        assert run(program, packet) == run(raw, packet[14:]) == expected
        assert run(program, packet[:12] + b"\x81\x00\x00\x07" + packet[12:]) == expected
    assert not any(run(program, packet) for packet in packets(addresses, 40_000, 9093))


@pytest.mark.parametrize("base", ["10.1.0.0/32", "2001:db8::/128"])
def test_the_maximum_of_networks_fits_beside_the_maximum_of_ports(base: str) -> None:
    first = ip_network(base).network_address
    many = [ip_network(first + number) for number in range(MAX_NETWORKS + 1)]
    program = tcp_ports_filter(range(9043, 9043 + MAX_PORTS), LinkType.ETHERNET, many)
    assert len(program) <= MOST_INSTRUCTIONS
    assert max(max(step.jump_true, step.jump_false) for step in program) <= 255
    for number, network in enumerate(many):
        ends = (network.network_address.packed, V4[0] if network.version == 4 else V6[0])
        cut = EXCLUDED_BYTES if number < MAX_NETWORKS else ACCEPTED_BYTES
        assert [run(program, packet) for packet in packets(ends, 40_000, 9092)] == [cut, cut]


def test_the_maximum_of_ports_fits_and_more_are_refused() -> None:
    program = tcp_ports_filter(range(1, MAX_PORTS + 1), LinkType.ETHERNET)
    assert max(max(step.jump_true, step.jump_false) for step in program) <= 255
    assert all(run(program, packet) for packet in packets(V6, 40_000, 1))
    assert all(run(program, packet) for packet in packets(V4, MAX_PORTS, 40_000))
    assert len(machine_code(program)) == 8 * len(program)
    with pytest.raises(ValueError, match="at most 50 ports, not 51"):
        tcp_ports_filter(range(1, MAX_PORTS + 2), LinkType.ETHERNET)
