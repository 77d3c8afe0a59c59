"""Any body that a message can carry at a version, drawn from its program."""

from __future__ import annotations

import base64
import functools
import operator
from typing import Any

from hypothesis import strategies as st

from decoders.codec.program import UNKNOWN_TAGS, FieldKind, Instruction, Program

_INTEGERS = {
    FieldKind.INT8: (-(1 << 7), (1 << 7) - 1),
    FieldKind.INT16: (-(1 << 15), (1 << 15) - 1),
    FieldKind.UINT16: (0, (1 << 16) - 1),
    FieldKind.INT32: (-(1 << 31), (1 << 31) - 1),
    FieldKind.UINT32: (0, (1 << 32) - 1),
    FieldKind.INT64: (-(1 << 63), (1 << 63) - 1),
}
_BASE64 = st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode())
_PRIMITIVES: dict[FieldKind, st.SearchStrategy[Any]] = {
    **{kind: st.integers(lowest, highest) for kind, (lowest, highest) in _INTEGERS.items()},
    FieldKind.BOOL: st.booleans(),
    FieldKind.FLOAT64: st.floats(allow_nan=False),
    FieldKind.UUID: st.binary(min_size=16, max_size=16).map(
        lambda data: base64.urlsafe_b64encode(data).decode()[:22]
    ),
    FieldKind.STRING: st.text(st.characters(codec="utf-8"), max_size=8),
    FieldKind.BYTES: _BASE64,
    FieldKind.RECORDS: _BASE64,
}
# Above every tag of a schema, and wide enough for varints of one to four bytes.
_UNKNOWN_TAGS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries({"tag": st.integers(20, 1 << 27), "data": _BASE64}),
    min_size=1,
    max_size=2,
    unique_by=lambda unknown: unknown["tag"],
).map(lambda unknown: sorted(unknown, key=operator.itemgetter("tag")))


@functools.cache
def bodies(program: Program) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies in the form that the reader returns: without tagged fields that have their default."""
    fields = {instruction.name: _values(instruction) for instruction in program.fields}
    tagged: dict[str, st.SearchStrategy[Any]] = {
        instruction.name: _values(instruction).filter(functools.partial(_differs, instruction))
        for instruction in program.tagged.values()
    }
    if program.flexible:
        tagged[UNKNOWN_TAGS] = _UNKNOWN_TAGS
    return st.fixed_dictionaries(fields, optional=tagged)


def _differs(instruction: Instruction, value: object) -> bool:
    return bool(value != instruction.default)


def _values(instruction: Instruction) -> st.SearchStrategy[Any]:
    present = _present(instruction)
    return st.none() | present if instruction.nullable else present


def _present(instruction: Instruction) -> st.SearchStrategy[Any]:
    if instruction.program is not None and instruction.kind is FieldKind.STRUCT:
        return bodies(instruction.program)
    if instruction.element is not None:
        return st.lists(_present(instruction.element), max_size=2)
    return _PRIMITIVES[instruction.kind]
