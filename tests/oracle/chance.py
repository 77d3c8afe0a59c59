"""Random values of any message, in the form that the reader returns, and damaged bytes.

Tens of thousands are drawn in a test, faster than hypothesis draws them; it has tests of its own.
"""

from __future__ import annotations

import base64
from random import Random
from typing import Any

from decoders.codec.program import UNKNOWN_TAGS, FieldKind, Instruction, Program

_INTEGERS = {
    FieldKind.INT8: (8, True),
    FieldKind.INT16: (16, True),
    FieldKind.UINT16: (16, False),
    FieldKind.INT32: (32, True),
    FieldKind.UINT32: (32, False),
    FieldKind.INT64: (64, True),
}
_LETTERS = 'aZ0-\t"\\\x00é中😀\u2028'
_FIRST_FOREIGN_TAG = 10_000


def body(random: Random, program: Program, longest: int = 3) -> dict[str, Any]:
    """Draw a struct whose arrays have up to `longest` elements, those within them fewer."""
    values = {one.name: _value(random, one, longest) for one in program.fields}
    for one in program.tagged.values():
        value = _value(random, one, longest)
        if random.random() < 0.7 and value != one.default:
            values[one.name] = value
    if program.flexible and random.random() < 0.1:
        tag = random.randrange(_FIRST_FOREIGN_TAG, 1 << random.randint(14, 31))
        values[UNKNOWN_TAGS] = [{"tag": tag, "data": _data(random)}]
    return values


def damaged(random: Random, data: bytes) -> bytes:
    """Change, remove or insert a byte, or cut off the end."""
    at = random.randrange(len(data) + 1)
    byte = bytes([random.choice((0x00, 0x01, 0x7F, 0x80, 0xFF, random.randrange(256)))])
    return random.choice(
        (
            data[:at] + byte + data[at + 1 :],
            data[:at] + data[at + 1 :],
            data[:at] + byte + data[at:],
            data[:at],
        )
    )


def _value(random: Random, instruction: Instruction, longest: int) -> Any:
    if instruction.nullable and random.random() < 0.25:
        return None
    if instruction.element is not None:
        fewer = max(1, longest - 1)
        return [_value(random, instruction.element, fewer) for _ in range(random.randint(0, longest))]
    if instruction.program is not None:
        return body(random, instruction.program, longest)
    return _primitive(random, instruction.kind)


def _primitive(random: Random, kind: FieldKind) -> Any:
    if kind in _INTEGERS:
        bits, is_signed = _INTEGERS[kind]
        return _integer(random, bits, is_signed)
    if kind is FieldKind.BOOL:
        return random.random() < 0.5
    if kind is FieldKind.FLOAT64:
        return random.gauss(0, 1) * 10.0 ** random.randint(-300, 300)
    if kind is FieldKind.UUID:
        return base64.urlsafe_b64encode(random.randbytes(16)).decode()[:22]
    if kind is FieldKind.STRING:
        return "".join(random.choices(_LETTERS, k=_length(random)))
    return _data(random)


def _integer(random: Random, bits: int, is_signed: bool) -> int:
    """Draw a number whose count of bits is uniform."""
    value = random.getrandbits(random.randint(1, bits))
    return value - (1 << bits) if is_signed and value >> (bits - 1) else value


def _data(random: Random) -> str:
    return base64.b64encode(random.randbytes(_length(random))).decode()


def _length(random: Random) -> int:
    """Draw a short length, but now and then one that takes two bytes of a varint."""
    return random.randint(120, 320) if random.random() < 0.02 else random.randint(0, 8)
