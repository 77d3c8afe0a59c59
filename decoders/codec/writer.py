"""The writer: dict → bytes, as Kafka's own classes write them.

The dict has the form that the reader returns. A missing key means the field's default. A value that the
version cannot carry is an EncodeError, unless it is the default or the schema calls the field ignorable:
dropping it silently would change the meaning of the message.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from decoders.codec.failure import EncodeError
from decoders.codec.program import (
    HIGHEST_STRING_LENGTH,
    NUMBERS,
    UNKNOWN_TAGS,
    FieldKind,
    Instruction,
    Program,
)

FieldValues = Mapping[str, Any]
_Write = Callable[[bytearray, Instruction, Any], None]

_INT16: Final = NUMBERS[FieldKind.INT16]
_INT32: Final = NUMBERS[FieldKind.INT32]


def write(program: Program, values: FieldValues) -> bytes:
    """Encode a struct. Raises EncodeError, naming the field, for what the message cannot carry."""
    out = bytearray()
    _fields(out, program, values)
    return bytes(out)


def _fields(out: bytearray, program: Program, values: FieldValues) -> None:
    _refuse_the_rest(program, values)
    for instruction in program.fields:
        _WRITE[instruction.kind](out, instruction, values.get(instruction.name, instruction.default))
    if program.flexible:
        _tags(out, program, values)


def _refuse_the_rest(program: Program, values: FieldValues) -> None:
    prefix = program.tags_path.removesuffix(UNKNOWN_TAGS)
    if not isinstance(values, Mapping):
        raise EncodeError(prefix.rstrip("."), f"{values!r} is not a map of fields")
    for name in values.keys() - program.names - program.dropped:
        if name in program.lost:
            if values[name] != program.lost[name]:
                raise EncodeError(prefix + name, "this version cannot carry a value other than the default")
        elif name != UNKNOWN_TAGS or not program.flexible:
            raise EncodeError(prefix + str(name), "there is no such field")


def _tags(out: bytearray, program: Program, values: FieldValues) -> None:
    contents = _unknown_tags(program, values)
    for tag, instruction in program.tagged.items():
        value = values.get(instruction.name, instruction.default)
        if value != instruction.default:
            content = bytearray()
            _WRITE[instruction.kind](content, instruction, value)
            contents[tag] = bytes(content)
    _varint(out, len(contents))
    for tag, encoded in sorted(contents.items()):
        _varint(out, tag)
        _varint(out, len(encoded))
        out += encoded


def _unknown_tags(program: Program, values: FieldValues) -> dict[int, bytes]:
    contents: dict[int, bytes] = {}
    for unknown in values.get(UNKNOWN_TAGS, ()):
        try:
            tag, data = int(unknown["tag"]), unknown["data"]
        except (KeyError, TypeError, ValueError):
            raise EncodeError(program.tags_path, f"{unknown!r} is not a tag and its data") from None
        if tag in contents or tag in program.tagged:
            raise EncodeError(program.tags_path, f"tag {tag} is there twice")
        contents[tag] = _decoded(data, program.tags_path)
    return contents


def _varint(out: bytearray, value: int) -> None:
    # Masked as in Kafka's readers, which read a tag of 2^31 or more as a negative int32.
    value &= 0xFFFFFFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _length(out: bytearray, instruction: Instruction, length: int, layout: struct.Struct) -> None:
    """Write a length, -1 for null."""
    if length < 0 and not instruction.nullable:
        raise EncodeError(instruction.path, "null is not allowed at this version")
    if instruction.compact:
        _varint(out, length + 1)
    else:
        out += layout.pack(length)


def _number(layout: struct.Struct) -> _Write:
    def put(out: bytearray, instruction: Instruction, value: Any) -> None:
        try:
            out += layout.pack(value)
        except struct.error as error:
            raise EncodeError(instruction.path, f"{value!r}: {error}") from None

    return put


def _bool(out: bytearray, instruction: Instruction, value: Any) -> None:
    if not isinstance(value, bool):
        raise EncodeError(instruction.path, f"{value!r} is not true or false")
    out.append(value)


def _uuid(out: bytearray, instruction: Instruction, value: Any) -> None:
    content = _decoded(value, instruction.path, b"-_", "==")
    if len(content) != 16:
        raise EncodeError(instruction.path, f"{value!r} is not a uuid in 22 characters of base64url")
    out += content


def _string(out: bytearray, instruction: Instruction, value: Any) -> None:
    if value is None:
        _length(out, instruction, -1, _INT16)
        return
    if not isinstance(value, str):
        raise EncodeError(instruction.path, f"{value!r} is not a string")
    content = value.encode(errors="replace")
    if len(content) > HIGHEST_STRING_LENGTH:
        raise EncodeError(instruction.path, f"a string of {len(content)} bytes is too long")
    _length(out, instruction, len(content), _INT16)
    out += content


def _bytes(out: bytearray, instruction: Instruction, value: Any) -> None:
    if value is None:
        _length(out, instruction, -1, _INT32)
        return
    content = _decoded(value, instruction.path)
    _length(out, instruction, len(content), _INT32)
    out += content


def _decoded(value: Any, path: str, alphabet: bytes = b"+/", padding: str = "") -> bytes:
    try:
        return base64.b64decode(value + padding, alphabet, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise EncodeError(path, f"{value!r} is not base64") from None


def _struct(out: bytearray, instruction: Instruction, value: Any) -> None:
    assert instruction.program is not None
    if instruction.nullable:
        _marker(out, instruction, value is not None)
    if value is not None:
        _fields(out, instruction.program, value)
    elif not instruction.nullable:
        raise EncodeError(instruction.path, "null is not allowed at this version")


def _marker(out: bytearray, instruction: Instruction, present: bool) -> None:
    # A signed byte, but a varint in a tagged field.
    absent = 0x00 if instruction.tag is not None else 0xFF
    out.append(0x01 if present else absent)


def _array(out: bytearray, instruction: Instruction, value: Any) -> None:
    assert instruction.element is not None
    if value is None:
        _length(out, instruction, -1, _INT32)
        return
    if not isinstance(value, (list, tuple)):
        raise EncodeError(instruction.path, f"{value!r} is not a list")
    _length(out, instruction, len(value), _INT32)
    put = _WRITE[instruction.element.kind]
    for element in value:
        put(out, instruction.element, element)


_WRITE: Final[dict[FieldKind, _Write]] = {
    **{kind: _number(layout) for kind, layout in NUMBERS.items()},
    FieldKind.BOOL: _bool,
    FieldKind.UUID: _uuid,
    FieldKind.STRING: _string,
    FieldKind.BYTES: _bytes,
    FieldKind.RECORDS: _bytes,
    FieldKind.STRUCT: _struct,
    FieldKind.ARRAY: _array,
}
