"""The error codes of a response: the values of all error code fields of its body, at any depth."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from decoders.schema.model import Message, Struct

_SUFFIX = "rrorCode"


def error_codes(response: Message, body: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the distinct error codes of a body in ascending order, 0 (no error) included.

    Kafka's schemas name such a field `errorCode`, or end its name in `ErrorCode`.
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
    """Return the names of error code fields (with None), and of fields whose struct has some at any depth."""
    return tuple(
        (field.name, field.struct)
        for field in struct.fields
        if (field.type == "int16" and field.name.endswith(_SUFFIX))
        or (field.struct is not None and _places(field.struct))
    )


def error_code_paths(struct: Struct) -> tuple[str, ...]:
    """Return the paths of all fields that `error_codes` reads, such as `topics.errorCode`."""
    return tuple(
        name if nested is None else f"{name}.{path}"
        for name, nested in _places(struct)
        for path in ((name,) if nested is None else error_code_paths(nested))
    )


def has_tagged_error_code(struct: Struct) -> bool:
    """Return whether an error code is a tagged field or inside one, and so may be absent from the bytes."""
    fields = {field.name: field for field in struct.fields}
    return any(
        fields[name].tag is not None or (nested is not None and has_tagged_error_code(nested))
        for name, nested in _places(struct)
    )
