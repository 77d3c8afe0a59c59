"""The filter that the kernel runs on every packet of an interface: classic BPF for TCP ports.

The machine is described at https://www.kernel.org/doc/html/latest/networking/filter.html. Here jumps
name labels, and the assembler counts the instructions between.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from decoders.wire.segment import LinkType

MAX_PORTS = 50
"""A jump reaches 255 instructions ahead, and each port is compared in four places."""
ACCEPTED_BYTES = 0x40000
"""How much of an accepted packet is handed over: more than any packet is long."""

LOAD_BYTE = 0x30
LOAD_HALF = 0x28
LOAD_HALF_INDEXED = 0x48
LOAD_IP_HEADER_LENGTH = 0xB1
"""Into the index: four times the low half of a byte."""
AND = 0x54
JUMP = 0x05
"""Unconditional; it alone reaches any distance."""
JUMP_IF_EQUAL = 0x15
JUMP_IF_ANY_BIT = 0x45
RETURN = 0x06

_ETHERTYPE_AT = 12
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_MOST_VLAN_TAGS = 2
_PROTOCOL_TCP = 6
_IPV6_EXTENSIONS = (0, 43, 44, 60)
_FRAGMENT_OFFSET = 0x1FFF


class Instruction(NamedTuple):
    """A machine instruction; its jumps are counted from the instruction behind it."""

    code: int
    jump_true: int
    jump_false: int
    operand: int


class Step(NamedTuple):
    """An instruction whose jumps name labels, "" for the next instruction; `label` is its own name."""

    code: int
    operand: int = 0
    when_true: str = ""
    when_false: str = ""
    label: str = ""


def tcp_ports_filter(ports: Collection[int], link_type: LinkType) -> list[Instruction]:
    """Accept TCP over IPv4 and IPv6 from or to any of the ports, or all TCP when there are none.

    Of a fragmented packet only the first part has ports: the rest is rejected. IPv6 extension headers
    are not looked behind: what has any is accepted, and so is left to who reads it. Raises ValueError
    for more than MAX_PORTS ports, and for link layers other than Ethernet and raw IP.
    """
    if len(ports) > MAX_PORTS:
        raise ValueError(f"a filter takes at most {MAX_PORTS} ports, not {len(ports)}")
    if link_type is LinkType.RAW:
        return assemble(_ip_checks(ports, 0))
    if link_type is LinkType.ETHERNET:
        return assemble(_ethernet_checks(ports))
    raise ValueError(f"there is no filter for link type {link_type}")


def _ethernet_checks(ports: Collection[int]) -> Iterator[Step]:
    """Find IP behind VLAN tags: the kernel takes out the outer one only, and not of all that is sent."""
    for tags in range(_MOST_VLAN_TAGS):
        ethertype_at = _ETHERTYPE_AT + 4 * tags
        yield Step(LOAD_HALF, ethertype_at, label=f"behind {tags} tags")
        for tag in _VLAN_TAGS:
            yield Step(JUMP_IF_EQUAL, tag, when_true=f"tag {tags}")
        yield Step(JUMP, when_true=f"IP at {ethertype_at + 2}")
        yield Step(JUMP, when_true=f"behind {tags + 1} tags", label=f"tag {tags}")
        yield from _ip_checks(ports, ethertype_at + 2)
    ethertype_at = _ETHERTYPE_AT + 4 * _MOST_VLAN_TAGS
    yield Step(JUMP, when_true=f"IP at {ethertype_at + 2}", label=f"behind {_MOST_VLAN_TAGS} tags")
    yield from _ip_checks(ports, ethertype_at + 2)


def _ip_checks(ports: Collection[int], ip: int) -> Iterator[Step]:
    """Judge the packet whose IP header is at byte `ip`; every way through returns."""
    accept, reject, ipv4, ipv6 = (f"{name} at {ip}" for name in ("accept", "reject", "IPv4", "IPv6"))
    yield Step(LOAD_BYTE, ip, label=f"IP at {ip}")
    yield Step(AND, 0xF0)
    yield Step(JUMP_IF_EQUAL, 0x40, when_true=ipv4)
    yield Step(JUMP_IF_EQUAL, 0x60, when_true=ipv6, when_false=reject)
    yield Step(LOAD_BYTE, ip + 9, label=ipv4)
    yield Step(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=reject)
    yield Step(LOAD_HALF, ip + 6)
    yield Step(JUMP_IF_ANY_BIT, _FRAGMENT_OFFSET, when_true=reject)
    yield Step(LOAD_IP_HEADER_LENGTH, ip)
    yield from _port_checks(ports, LOAD_HALF_INDEXED, ip, accept)
    yield Step(LOAD_BYTE, ip + 6, label=ipv6)
    for extension in _IPV6_EXTENSIONS:
        yield Step(JUMP_IF_EQUAL, extension, when_true=accept)
    yield Step(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=reject)
    yield from _port_checks(ports, LOAD_HALF, ip + 40, accept)
    yield Step(RETURN, 0, label=reject)
    yield Step(RETURN, ACCEPTED_BYTES, label=accept)


def _port_checks(ports: Collection[int], load: int, tcp_header: int, accept: str) -> Iterator[Step]:
    for place in (tcp_header, tcp_header + 2):
        yield Step(load, place)
        for port in sorted(ports):
            yield Step(JUMP_IF_EQUAL, port, when_true=accept)
    yield Step(RETURN, 0 if ports else ACCEPTED_BYTES)


def assemble(steps: Iterable[Step]) -> list[Instruction]:
    """Turn labels into distances."""
    program = list(steps)
    places = {step.label: place for place, step in enumerate(program) if step.label}

    def distance(label: str, place: int) -> int:
        return places[label] - place - 1 if label else 0

    def instruction(step: Step, place: int) -> Instruction:
        when_true = distance(step.when_true, place)
        if step.code == JUMP:
            return Instruction(JUMP, 0, 0, when_true)
        return Instruction(step.code, when_true, distance(step.when_false, place), step.operand)

    return [instruction(step, place) for place, step in enumerate(program)]


def machine_code(program: Iterable[Instruction]) -> bytes:
    """Lay a program out as the kernel reads it: an array of `struct sock_filter`."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
