"""The error codes of an answer: every one that its body has a field for, however deep."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from decoders.schema.model import Message, Struct

_SUFFIX = "rrorCode"


def error_codes(response: Message, body: Mapping[str, Any]) -> tuple[int, ...]:
    """Give the distinct error codes of a body, ascending; none where no field or no item carries one.

    Kafka's schemas name such a field `errorCode`, or something that ends in it.
    """
    return tuple(sorted(set(_codes(response.struct, body))))


def _codes(struct: Struct, values: Mapping[str, Any]) -> Iterator[int]:
    for name, nested in _places(struct):
        value = values.get(name)
        if value is None:
            continue
        if nested is None:
            yield value
            continue
        for item in value if isinstance(value, list) else (value,):
            yield from _codes(nested, item)


@functools.cache
def _places(struct: Struct) -> tuple[tuple[str, Struct | None], ...]:
    """Name the fields that are error codes (None), and those that hold some further down."""
    return tuple(
        (field.name, field.struct)
        for field in struct.fields
        if (field.type == "int16" and field.name.endswith(_SUFFIX))
        or (field.struct is not None and _places(field.struct))
    )


def error_code_paths(struct: Struct) -> tuple[str, ...]:
    """Name all fields that `error_codes` looks at, as paths from the struct (`topics.errorCode`)."""
    return tuple(
        name if nested is None else f"{name}.{path}"
        for name, nested in _places(struct)
        for path in ((name,) if nested is None else error_code_paths(nested))
    )


def has_tagged_error_code(struct: Struct) -> bool:
    """Whether an error code is a tagged field, or in one, and so may be told without being written."""
    fields = {field.name: field for field in struct.fields}
    return any(
        fields[name].tag is not None or (nested is not None and has_tagged_error_code(nested))
        for name, nested in _places(struct)
    )
