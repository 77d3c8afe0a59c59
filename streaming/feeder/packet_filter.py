"""The filter that the kernel runs on every packet of an interface: classic BPF for TCP ports.

The machine is described at https://www.kernel.org/doc/html/latest/networking/filter.html. Here jumps
name labels, and the assembler counts the instructions between.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import NamedTuple

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
JUMP_IF_EQUAL = 0x15
JUMP_IF_ANY_BIT = 0x45
RETURN = 0x06

_ACCEPT, _REJECT, _IPV4, _IPV6 = "accept", "reject", "IPv4", "IPv6"
_PROTOCOL_TCP = 6
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
    operand: int
    when_true: str = ""
    when_false: str = ""
    label: str = ""


def tcp_ports_filter(ports: Collection[int], link_header: int) -> list[Instruction]:
    """Accept TCP over IPv4 and IPv6 from or to any of the ports, or all TCP when there are none.

    `link_header` is the length of the header before IP: 14 on Ethernet. Of a fragmented packet only
    the first part has ports, and IPv6 extension headers are not looked behind: the rest is rejected.
    Raises ValueError for more than MAX_PORTS ports.
    """
    if len(ports) > MAX_PORTS:
        raise ValueError(f"a filter takes at most {MAX_PORTS} ports, not {len(ports)}")
    return assemble(
        [
            Step(LOAD_BYTE, link_header),
            Step(AND, 0xF0),
            Step(JUMP_IF_EQUAL, 0x40, when_true=_IPV4),
            Step(JUMP_IF_EQUAL, 0x60, when_true=_IPV6, when_false=_REJECT),
            Step(LOAD_BYTE, link_header + 9, label=_IPV4),
            Step(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=_REJECT),
            Step(LOAD_HALF, link_header + 6),
            Step(JUMP_IF_ANY_BIT, _FRAGMENT_OFFSET, when_true=_REJECT),
            Step(LOAD_IP_HEADER_LENGTH, link_header),
            *_port_checks(ports, LOAD_HALF_INDEXED, link_header),
            Step(LOAD_BYTE, link_header + 6, label=_IPV6),
            Step(JUMP_IF_EQUAL, _PROTOCOL_TCP, when_false=_REJECT),
            *_port_checks(ports, LOAD_HALF, link_header + 40),
            Step(RETURN, 0, label=_REJECT),
            Step(RETURN, ACCEPTED_BYTES, label=_ACCEPT),
        ]
    )


def _port_checks(ports: Collection[int], load: int, tcp_header: int) -> Iterable[Step]:
    for place in (tcp_header, tcp_header + 2):
        yield Step(load, place)
        for port in sorted(ports):
            yield Step(JUMP_IF_EQUAL, port, when_true=_ACCEPT)
    yield Step(RETURN, 0 if ports else ACCEPTED_BYTES)


def assemble(steps: Iterable[Step]) -> list[Instruction]:
    """Turn labels into distances."""
    program = list(steps)
    places = {step.label: place for place, step in enumerate(program) if step.label}

    def distance(label: str, place: int) -> int:
        return places[label] - place - 1 if label else 0

    return [
        Instruction(
            step.code, distance(step.when_true, place), distance(step.when_false, place), step.operand
        )
        for place, step in enumerate(program)
    ]


def machine_code(program: Iterable[Instruction]) -> bytes:
    """Lay a program out as the kernel reads it: an array of `struct sock_filter`."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
