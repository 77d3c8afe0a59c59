"""Example values of a message: every field is there, so that an encoded example shows where each one goes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from decoders.codec.program import FieldKind, Instruction, Program

_UUID: Final = base64.urlsafe_b64encode(bytes(range(1, 17))).decode().rstrip("=")
_OF_KIND: Final[Mapping[FieldKind, Any]] = {
    FieldKind.BOOL: True,
    FieldKind.FLOAT64: 1.0,
    FieldKind.UUID: _UUID,
    FieldKind.BYTES: base64.b64encode(b"\1\2\3").decode(),
    FieldKind.RECORDS: "",
}


def example_values(program: Program) -> dict[str, Any]:
    """Return a value for each field: numbers are 1, a text is the field's name, an array has one element.

    The values have the form that the reader returns and the writer takes.
    """
    return {each.name: _example(each) for each in (*program.fields, *program.tagged.values())}


def _example(instruction: Instruction) -> Any:
    if instruction.element is not None:
        return [_example(instruction.element)]
    if instruction.program is not None:
        return example_values(instruction.program)
    if instruction.kind is FieldKind.STRING:
        return instruction.name
    return _OF_KIND.get(instruction.kind, 1)
