"""Which fields are wanted as columns, and what type of value each column holds."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from decoders.schema.model import Field, Message, Struct
from decoders.schema.registry import Schemas

LENGTH: Final = "[]"
"""Ends the path of an array whose length is wanted, instead of its elements."""
NULL_LENGTH: Final = -1
"""The length of an array that is null."""


class ValueType(enum.Enum):
    """What the values of a column are, in `DecodedFrames.found`."""

    INTEGER = enum.auto()
    BOOLEAN = enum.auto()
    FLOAT = enum.auto()
    """The 64 bits of the number, as an integer."""
    UUID = enum.auto()
    """The place of its 16 bytes, as that of BYTES."""
    BYTES = enum.auto()
    """The place of a string, bytes or records in the frame."""


@dataclass(frozen=True, slots=True)
class Column:
    """One wanted column.

    `requests` and `responses` give the path of the field that it takes from each API, by key.
    """

    name: str
    type: ValueType
    requests: Mapping[int, str]
    responses: Mapping[int, str]


def columns_of(schemas: Schemas, wanted: Mapping[str, Collection[str]]) -> tuple[Column, ...]:
    """Make columns of the fields that each is to hold, named `Message.path.to.field`.

    `Message.path.to.array[]` is the length of an array.
    A column may take one field from each of several messages. Raises ValueError for a field that no
    version of the schemas has, for a struct, for a field that is wanted twice, and for fields whose values
    have different types.
    """
    counts = Counter(field for fields in wanted.values() for field in fields)
    for field, count in counts.items():
        if count > 1:
            raise ValueError(f"{field} is wanted twice")
    messages = {message.name: message for api in schemas.apis for message in (api.request, api.response)}
    return tuple(_column(messages, name, fields) for name, fields in wanted.items())


def _column(messages: Mapping[str, Message], name: str, fields: Collection[str]) -> Column:
    paths: dict[str, dict[int, str]] = {"request": {}, "response": {}}
    types = {_type_of(messages, field) for field in fields}
    for field in fields:
        owner, _, path = field.partition(".")
        message = messages[owner]
        assert message.api_key is not None  # every request and response has one
        if message.api_key in paths[message.kind]:
            raise ValueError(f"column {name}: two fields of {owner}")
        paths[message.kind][message.api_key] = path
    if len(types) != 1:
        raise ValueError(f"column {name}: its fields are not of one type")
    return Column(name, types.pop(), paths["request"], paths["response"])


def _type_of(messages: Mapping[str, Message], full_name: str) -> ValueType:
    found = _field(messages, full_name.removesuffix(LENGTH))
    if full_name.endswith(LENGTH):
        if not found.is_array:
            raise ValueError(f"{full_name}: the field is no array")
        return ValueType.INTEGER
    if found.struct is not None:
        raise ValueError(f"{full_name} is a struct: name its fields")
    return _value_type(found)


def _field(messages: Mapping[str, Message], full_name: str) -> Field:
    """Find a field by its message and path."""
    message, *names = full_name.split(".")
    struct: Struct | None = messages[message].struct if message in messages else None
    found: Field | None = None
    for name in names:
        fields = struct.fields if struct else ()
        found = next((field for field in fields if field.name == name), None)
        struct = found.struct if found else None
    if found is None:
        raise ValueError(f"no message has the field {full_name}")
    return found


def _value_type(field: Field) -> ValueType:
    return ValueType.INTEGER if "int" in field.type else _VALUE_TYPES[field.type]


_VALUE_TYPES = {
    "bool": ValueType.BOOLEAN,
    "float64": ValueType.FLOAT,
    "uuid": ValueType.UUID,
    "string": ValueType.BYTES,
    "bytes": ValueType.BYTES,
    "records": ValueType.BYTES,
}
