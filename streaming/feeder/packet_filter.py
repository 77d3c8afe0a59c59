"""The packet filter that the kernel runs on an interface: classic BPF for TCP ports.

Instructions refer to each other by labels, which `assemble` turns into relative jumps. The machine is
described at https://www.kernel.org/doc/html/latest/networking/filter.html.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from decoders.wire.segment import EXTENSION_HEADERS, LinkType

MAX_PORTS = 50
"""A conditional jump reaches 255 instructions ahead, and each port is compared in four places."""
MAX_NETWORKS = 40
"""A program has at most 4,096 instructions, and each IPv6 network takes up to 78."""
EXCLUDED_BYTES = 142
"""Bytes to capture of an excluded packet, for counting: the longest Ethernet, IP and TCP headers."""
ACCEPTED_BYTES = 0x40000
"""Bytes to capture of an accepted packet: more than any packet has."""

LOAD_WORD = 0x20
LOAD_BYTE = 0x30
LOAD_HALF = 0x28
LOAD_HALF_INDEXED = 0x48
LOAD_IP_HEADER_LENGTH = 0xB1
"""Sets the index to four times the low half of a byte."""
AND = 0x54
JUMP = 0x05
"""Unconditional, and the only jump without a limit of distance."""
JUMP_IF_EQUAL = 0x15
JUMP_IF_ANY_BIT = 0x45
RETURN = 0x06

_ETHERTYPE_AT = 12
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_MOST_VLAN_TAGS = 2
_PROTOCOL_TCP = 6
_FRAGMENT_OFFSET = 0x1FFF


Network = IPv4Network | IPv6Network


class BpfInstruction(NamedTuple):
    """A machine instruction; its jumps are relative to the next instruction."""

    code: int
    jump_true: int
    jump_false: int
    operand: int


class LabelledInstruction(NamedTuple):
    """An instruction that jumps to labels, "" for the next instruction; `label` is its own."""

    code: int
    operand: int = 0
    when_true: str = ""
    when_false: str = ""
    label: str = ""


def tcp_ports_filter(
    ports: Collection[int], link_type: LinkType, excluded: Sequence[Network] = ()
) -> list[BpfInstruction]:
    """Accept TCP over IPv4 and IPv6 from or to any of the ports, or all TCP if there are none.

    Rejects all but the first fragment of a packet, since later ones have no ports. Accepts packets with IPv6
    extension headers, which the filter does not parse. Cuts packets from or to the first MAX_NETWORKS of
    `excluded` behind their headers. Raises ValueError for more than MAX_PORTS ports, and for link layers
    other than Ethernet and raw IP.
    """
    if len(ports) > MAX_PORTS:
        raise ValueError(f"a filter accepts at most {MAX_PORTS} ports, not {len(ports)}")
    checks = _IpChecks(ports, excluded[:MAX_NETWORKS])
    if link_type is LinkType.RAW:
        return assemble(checks.at(0))
    if link_type is LinkType.ETHERNET:
        return assemble(_ethernet_checks(checks))
    raise ValueError(f"there is no filter for link type {link_type}")


def _ethernet_checks(checks: _IpChecks) -> Iterator[LabelledInstruction]:
    """Find IP behind VLAN tags: the kernel removes only the outer tag, and not of all outgoing packets."""
    for tags in range(_MOST_VLAN_TAGS):
        ethertype_at = _ETHERTYPE_AT + 4 * tags
        yield LabelledInstruction(LOAD_HALF, ethertype_at, label=f"behind {tags} tags")
        for tag in _VLAN_TAGS:
            yield LabelledInstruction(JUMP_IF_EQUAL, tag, when_true=f"tag {tags}")
        yield LabelledInstruction(JUMP, when_true=f"IP at {ethertype_at + 2}")
        yield LabelledInstruction(JUMP, when_true=f"behind {tags + 1} tags", label=f"tag {tags}")
        yield from checks.at(ethertype_at + 2)
    ethertype_at = _ETHERTYPE_AT + 4 * _MOST_VLAN_TAGS
    yield LabelledInstruction(
        JUMP, when_true=f"IP at {ethertype_at + 2}", label=f"behind {_MOST_VLAN_TAGS} tags"
    )
    yield from checks.at(ethertype_at + 2)


class _IpChecks(NamedTuple):
    """The checks of IP and TCP headers, at any offset of the IP header."""

    ports: Collection[int]
    excluded: Sequence[Network]

    def at(self, ip: int) -> Iterator[LabelledInstruction]:
        """Check the packet whose IP header is at byte `ip`; every path returns."""
        reject, ipv4, ipv6 = (f"{name} at {ip}" for name in ("reject", "IPv4", "IPv6"))
        accept4, accept6 = (f"accept {version}" for version in (ipv4, ipv6))
        yield LabelledInstruction(LOAD_BYTE, ip, label=f"IP at {ip}")
        yield LabelledInstruction(AND, 0xF0)
        yield LabelledInstruction(JUMP_IF_EQUAL, 0x40, when_true=ipv4)
        yield LabelledInstruction(JUMP_IF_EQUAL, 0x60, when_true=ipv6, when_false=reject)
        yield LabelledInstruction(LOAD_BYTE, ip + 9, label=ipv4)
        yield LabelledInstruction(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=reject)
        yield LabelledInstruction(LOAD_HALF, ip + 6)
        yield LabelledInstruction(JUMP_IF_ANY_BIT, _FRAGMENT_OFFSET, when_true=reject)
        yield LabelledInstruction(LOAD_IP_HEADER_LENGTH, ip)
        yield from _port_checks(self.ports, LOAD_HALF_INDEXED, ip, accept4, reject)
        yield LabelledInstruction(LOAD_BYTE, ip + 6, label=ipv6)
        for extension in sorted(EXTENSION_HEADERS):
            yield LabelledInstruction(JUMP_IF_EQUAL, extension, when_true=accept6)
        yield LabelledInstruction(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=reject)
        yield from _port_checks(self.ports, LOAD_HALF, ip + 40, accept6, reject)
        yield LabelledInstruction(RETURN, 0, label=reject)
        # Unconditional jumps: conditional ones do not reach across many networks.
        for accept in (accept4, accept6):
            yield LabelledInstruction(JUMP, when_true=f"{accept}, unless excluded", label=accept)
        yield from self._addresses(IPv4Network, f"{accept4}, unless excluded", ip + 12)
        yield from self._addresses(IPv6Network, f"{accept6}, unless excluded", ip + 8)

    def _addresses(self, version: type[Network], label: str, at: int) -> Iterator[LabelledInstruction]:
        """Accept the packet whose addresses begin at byte `at`, or cut it if one of them is excluded.

        Some loads of single bytes have no other purpose than to carry a label.
        """
        networks = [network for network in self.excluded if isinstance(network, version)]
        yield LabelledInstruction(LOAD_BYTE, at, label=label)
        for number, network in enumerate(networks):
            for place in (at, at + network.max_prefixlen // 8):
                yield from _network_check(network, place, f"{label}: {number} at {place} differs")
        yield LabelledInstruction(RETURN, ACCEPTED_BYTES)


def _network_check(network: Network, at: int, differs: str) -> Iterator[LabelledInstruction]:
    """Cut the packet if the address at byte `at` is in the network, else jump to the label `differs`."""
    words = zip(
        struct.iter_unpack(">I", network.netmask.packed),
        struct.iter_unpack(">I", network.network_address.packed),
        strict=True,
    )
    for index, ((mask,), (value,)) in enumerate(words):
        if mask:
            yield LabelledInstruction(LOAD_WORD, at + 4 * index)
            yield LabelledInstruction(AND, mask)
            yield LabelledInstruction(JUMP_IF_EQUAL, value, when_false=differs)
    yield LabelledInstruction(RETURN, EXCLUDED_BYTES)
    yield LabelledInstruction(LOAD_BYTE, at, label=differs)


def _port_checks(
    ports: Collection[int], load: int, tcp_header: int, accept: str, reject: str
) -> Iterator[LabelledInstruction]:
    for place in (tcp_header, tcp_header + 2):
        yield LabelledInstruction(load, place)
        for port in sorted(ports):
            yield LabelledInstruction(JUMP_IF_EQUAL, port, when_true=accept)
    yield LabelledInstruction(JUMP, when_true=reject if ports else accept)


def assemble(steps: Iterable[LabelledInstruction]) -> list[BpfInstruction]:
    """Turn labels into relative jumps."""
    program = list(steps)
    places = {step.label: place for place, step in enumerate(program) if step.label}

    def distance(label: str, place: int) -> int:
        return places[label] - place - 1 if label else 0

    def instruction(step: LabelledInstruction, place: int) -> BpfInstruction:
        when_true = distance(step.when_true, place)
        if step.code == JUMP:
            return BpfInstruction(JUMP, 0, 0, when_true)
        return BpfInstruction(step.code, when_true, distance(step.when_false, place), step.operand)

    return [instruction(step, place) for place, step in enumerate(program)]


def machine_code(program: Iterable[BpfInstruction]) -> bytes:
    """Encode a program for the kernel: an array of `struct sock_filter`."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
