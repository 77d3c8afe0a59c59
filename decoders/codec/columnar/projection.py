"""Which fields are wanted as columns, and what sort of column each makes."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from decoders.schema.model import Field, Message, Struct
from decoders.schema.registry import Schemas


class Sort(enum.Enum):
    """What the values of a column are."""

    INTEGER = enum.auto()
    BOOLEAN = enum.auto()
    FLOAT = enum.auto()
    UUID = enum.auto()
    BYTES = enum.auto()
    """The bytes of strings, bytes and records as they stand in the frame."""


@dataclass(frozen=True, slots=True)
class Column:
    """One wanted column.

    `requests` and `responses` name the path of the field that it takes from each API, by key.
    `is_list` says that a frame may hold several values: a field is an array, or stands in one.
    """

    name: str
    sort: Sort
    is_list: bool
    requests: Mapping[int, str]
    responses: Mapping[int, str]


def columns_of(schemas: Schemas, wanted: Mapping[str, Collection[str]]) -> tuple[Column, ...]:
    """Work out columns from the fields that each is to hold, named `Message.path.to.field`.

    A column may take one field from each of several messages. Raises ValueError for a field that no
    version of the schemas has, for a struct, for one that is wanted twice, and for fields that do not
    make one column.
    """
    counts = Counter(field for fields in wanted.values() for field in fields)
    for field, count in counts.items():
        if count > 1:
            raise ValueError(f"{field} is wanted twice")
    messages = {message.name: message for api in schemas.apis for message in (api.request, api.response)}
    return tuple(_column(messages, name, fields) for name, fields in wanted.items())


def _column(messages: Mapping[str, Message], name: str, fields: Collection[str]) -> Column:
    paths: dict[str, dict[int, str]] = {"request": {}, "response": {}}
    lineages = [_lineage(messages, field) for field in fields]
    for field in fields:
        owner, _, path = field.partition(".")
        message = messages[owner]
        assert message.api_key is not None  # every request and response has one
        if message.api_key in paths[message.kind]:
            raise ValueError(f"column {name}: {owner} gives it two fields")
        paths[message.kind][message.api_key] = path
    sorts = {_sort(lineage[-1]) for lineage in lineages}
    if len(sorts) != 1:
        raise ValueError(f"column {name}: its fields are not of one sort")
    is_list = any(step.is_array for lineage in lineages for step in lineage)
    return Column(name, sorts.pop(), is_list, paths["request"], paths["response"])


def _lineage(messages: Mapping[str, Message], field: str) -> list[Field]:
    """Find a field by its full name, with those that it stands in."""
    message, *names = field.split(".")
    struct: Struct | None = messages[message].struct if message in messages else None
    lineage: list[Field] = []
    for name in names:
        fields = struct.fields if struct else ()
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            break
        lineage.append(found)
        struct = found.struct
    if not names or len(lineage) < len(names):
        raise ValueError(f"no message has the field {field}")
    if struct is not None:
        raise ValueError(f"{field} is a struct: name its fields")
    return lineage


def _sort(field: Field) -> Sort:
    return Sort.INTEGER if "int" in field.type else _SORTS[field.type]


_SORTS = {
    "bool": Sort.BOOLEAN,
    "float64": Sort.FLOAT,
    "uuid": Sort.UUID,
    "string": Sort.BYTES,
    "bytes": Sort.BYTES,
    "records": Sort.BYTES,
}
