"""Compiles a message at a version to the list of instructions that reader and writer run.

Everything that depends on the version is decided once, here: which fields exist, which may be null, which
lengths are compact, which fields are tagged. Reader and writer only walk through the list.
"""

from __future__ import annotations

import copy
import enum
import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from decoders.schema.model import Field, Message, Struct

UNKNOWN_TAGS = "_taggedFields"
"""The key of the tagged fields that the schema does not know: a list of `{"tag": 7, "data": "<base64>"}`. No
field of a schema can have this name."""


HIGHEST_STRING_LENGTH: Final = 0x7FFF
"""Bytes of the longest string that Kafka reads or writes."""


class FieldKind(enum.IntEnum):
    """The kind of value that an instruction reads or writes."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    STRUCT = 12
    ARRAY = 13


NUMBERS: Final = {
    FieldKind.BOOL: struct.Struct(">?"),
    FieldKind.INT8: struct.Struct(">b"),
    FieldKind.INT16: struct.Struct(">h"),
    FieldKind.UINT16: struct.Struct(">H"),
    FieldKind.INT32: struct.Struct(">i"),
    FieldKind.UINT32: struct.Struct(">I"),
    FieldKind.INT64: struct.Struct(">q"),
    FieldKind.FLOAT64: struct.Struct(">d"),
}
"""How numbers and booleans are encoded."""


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One field at one version.

    `compact` says that its length is encoded as an unsigned varint of the length plus one. `element`
    describes the elements of an array and `program` the fields of a struct. `default` is the value of an
    absent field; it must not be modified.
    """

    kind: FieldKind
    name: str
    path: str
    nullable: bool
    compact: bool
    default: Any
    tag: int | None = None
    element: Instruction | None = None
    program: Program | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A struct at one version.

    `fields` are in wire order. A `flexible` struct has a tag section after them: `tagged` are its fields by
    tag, `tags_path` names it in failures, and `foreign_tags` are the tags of fields that only other versions
    have. `names` are the names of all fields. `lost` are the defaults of the fields that this version cannot
    carry and that must not be dropped silently, `dropped` the names of those that may be.
    """

    fields: tuple[Instruction, ...]
    flexible: bool
    tagged: Mapping[int, Instruction]
    tags_path: str
    foreign_tags: frozenset[int]
    names: frozenset[str]
    lost: Mapping[str, Any]
    dropped: frozenset[str]


@functools.cache
def compile_message(message: Message, version: int) -> Program:
    """Compile a message at a version; the program is cached.

    Paths of a header begin with `header.`, so that they differ from those of a body.
    """
    return _program(message, message.struct, version, "header." if message.kind == "header" else "")


def _program(message: Message, struct: Struct, version: int, prefix: str) -> Program:
    present = [field for field in struct.fields if version in field.versions]
    absent = [field for field in struct.fields if version not in field.versions]
    lost = [field for field in absent if not field.ignorable]
    instructions = [_instruction(message, field, version, prefix) for field in present]
    tagged = {instruction.tag: instruction for instruction in instructions if instruction.tag is not None}
    return Program(
        fields=tuple(instruction for instruction in instructions if instruction.tag is None),
        flexible=message.is_flexible(version),
        tagged=tagged,
        tags_path=prefix + UNKNOWN_TAGS,
        foreign_tags=frozenset(field.tag for field in struct.fields if field.tag is not None) - tagged.keys(),
        names=frozenset(field.name for field in present),
        lost={field.name: _absent_default(message, field, version) for field in lost},
        dropped=frozenset(field.name for field in absent if field.ignorable),
    )


def _instruction(message: Message, field: Field, version: int, prefix: str) -> Instruction:
    path = prefix + field.name
    compact = message.is_flexible(version)
    if field.flexible_versions is not None:
        compact = compact and version in field.flexible_versions
    program = _program(message, field.struct, version, path + ".") if field.struct else None
    one = Instruction(
        kind=FieldKind[field.type.upper()],
        name=field.name,
        path=path,
        nullable=version in field.nullable_versions and not field.is_array,
        compact=compact,
        default=_default(field, program),
        tag=field.tag if version in field.tagged_versions else None,
        program=program,
    )
    if not field.is_array:
        return one
    return replace(
        one,
        kind=FieldKind.ARRAY,
        nullable=version in field.nullable_versions,
        default=field.default,
        element=one,
        program=None,
    )


def _default(field: Field, program: Program | None) -> Any:
    if program is None or field.is_array or field.default is None:
        return field.default
    return default_values(program)


def _absent_default(message: Message, field: Field, version: int) -> Any:
    program = _program(message, field.struct, version, "") if field.struct else None
    return _default(field, program)


def default_values(program: Program) -> dict[str, Any]:
    """Return the struct with all fields at their defaults, as the reader returns it."""
    return {instruction.name: copy.deepcopy(instruction.default) for instruction in program.fields}
