"""Writes the programs of all messages onto one tape, an array of integers that compiled code runs.

`codec/columnar/tape_format.py` defines the rows. The fields of structs are written in place, so only arrays
and tagged fields need a level. Neighbouring fields of fixed size share a SPAN, and an array notes the size
of its elements if it is fixed: both are skipped in one step, unless a field in them is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import head, tape_format
from decoders.codec.columnar.projection import LENGTH
from decoders.codec.header_layout import layout_of
from decoders.codec.program import NUMBERS, FieldKind, Instruction, Program
from decoders.schema.header_versions import Layout

_SIZES: Final = {kind: layout.size for kind, layout in NUMBERS.items()} | {FieldKind.UUID: 16}
_FLAGS: Final = {
    FieldKind.INT8: tape_format.SIGNED,
    FieldKind.INT16: tape_format.SIGNED,
    FieldKind.INT32: tape_format.SIGNED,
    FieldKind.UUID: tape_format.PLACE,
}
_LEAD_PATHS: Final = ("", "header.requestApiKey", "header.requestApiVersion", "header.correlationId")
"""Compiled code refers to these by number."""
_LAYOUTS: Final = {
    None: head.NO_LAYOUT,
    Layout.PLAIN: head.PLAIN_LAYOUT,
    Layout.TAGGED: head.TAGGED_LAYOUT,
}

Wanted = Mapping[str, int]
"""Paths of a message → the columns that want them."""

_HEADER_WANTED: Final = {
    "header.clientId": tape_format.CLIENT_ID,
    "header.clientInstanceId": tape_format.INSTANCE_ID,
}


class Tape:
    """A tape that is being written. `paths` are the paths of fields by number, `levels` counts the levels."""

    def __init__(self) -> None:
        self.levels = 1
        self._rows: list[list[int]] = []
        self._paths = {path: number for number, path in enumerate(_LEAD_PATHS)}
        self._span: list[list[int]] = []

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def rows(self) -> npt.NDArray[np.int32]:
        """Return the rows written so far, as one array of int32 with WIDTH cells for each."""
        rows = np.array(self._rows, np.int32)
        rows[:, tape_format.NEXT] *= tape_format.WIDTH
        return rows.reshape(-1)

    def write_frame(self, header_version: int, header: Program, body: Program | None, wanted: Wanted) -> int:
        """Write the layout of a frame, or of its header alone, after its lead; return its first row."""
        entry = self._here()
        self._struct(_without_lead(header), _HEADER_WANTED, 0)
        self._write(tape_format.HEADER_END, size=header_version, flags=_LAYOUTS[layout_of(header)])
        if body is not None:
            self._struct(body, wanted, 0)
        self._write(tape_format.END)
        return entry * tape_format.WIDTH

    def _here(self) -> int:
        """Write the pending span; return the number of the next row."""
        span, self._span = self._span, []
        if len(span) > 1:
            size = sum(row[tape_format.SIZE] for row in span)
            after = len(self._rows) + 1 + len(span)
            self._rows.append(_row(tape_format.SPAN, size=size, after=after))
        self._rows += span
        return len(self._rows)

    def _write(self, operation: int, path: str | None = None, **columns: int) -> int:
        number = self._here()
        self._rows.append(_row(operation, path=self._path(path), **columns))
        return number

    def _path(self, path: str | None) -> int:
        return -1 if path is None else self._paths.setdefault(path, len(self._paths))

    def _struct(self, program: Program, wanted: Wanted, level: int) -> None:
        self.levels = max(self.levels, level + 1)
        for instruction in program.fields:
            self._field(instruction, wanted, level)
        if program.flexible:
            self._tags(program, wanted, level)

    def _field(self, instruction: Instruction, wanted: Wanted, level: int) -> None:
        if instruction.kind in _SIZES:
            self._fixed(instruction, wanted)
        elif instruction.kind is FieldKind.STRUCT:
            self._nested(instruction, wanted, level)
        elif instruction.kind is FieldKind.ARRAY:
            self._array(instruction, wanted, level)
        else:
            operation = tape_format.STRING if instruction.kind is FieldKind.STRING else tape_format.BYTES
            self._write(
                operation, instruction.path, column=_column(instruction, wanted), flags=_flags(instruction)
            )

    def _fixed(self, instruction: Instruction, wanted: Wanted) -> None:
        row = _row(
            tape_format.FIXED,
            path=self._path(instruction.path),
            size=_SIZES[instruction.kind],
            column=_column(instruction, wanted),
            flags=_FLAGS.get(instruction.kind, 0) | _flags(instruction),
        )
        if row[tape_format.COLUMN] == tape_format.UNWANTED:
            self._span.append(row)
        else:
            self._here()
            self._rows.append(row)

    def _nested(self, instruction: Instruction, wanted: Wanted, level: int) -> None:
        assert instruction.program is not None
        if not instruction.nullable:
            self._struct(instruction.program, wanted, level)
            return
        marker = self._write(tape_format.STRUCT, instruction.path, flags=_flags(instruction))
        self._struct(instruction.program, wanted, level)
        self._rows[marker][tape_format.NEXT] = self._here()

    def _array(self, instruction: Instruction, wanted: Wanted, level: int) -> None:
        assert instruction.element is not None
        self.levels = max(self.levels, level + 1)
        array = self._write(
            tape_format.ARRAY,
            instruction.path,
            column=wanted.get(instruction.path + LENGTH, tape_format.UNWANTED),
            flags=_flags(instruction),
            level=level,
        )
        first = self._here()
        self._field(instruction.element, wanted, level + 1)
        self._rows[array][tape_format.SIZE] = self._fixed_size(first, self._here())
        self._write(tape_format.ARRAY_NEXT, level=level, after=first)
        self._rows[array][tape_format.NEXT] = self._here()

    def _fixed_size(self, first: int, end: int) -> int:
        """Return how many bytes some rows read; VARIABLE if that differs or one of them is wanted."""
        rows = [row for row in self._rows[first:end] if row[tape_format.OPERATION] != tape_format.SPAN]
        is_fixed = all(row[tape_format.OPERATION] == tape_format.FIXED for row in rows)
        if is_fixed and all(row[tape_format.COLUMN] < 0 for row in rows):
            return sum(row[tape_format.SIZE] for row in rows)
        return tape_format.VARIABLE

    def _tags(self, program: Program, wanted: Wanted, level: int) -> None:
        known = len(program.tagged) + len(program.foreign_tags)
        section = self._write(tape_format.TAGS, program.tags_path, level=level)
        following = self._write(tape_format.TAGS_NEXT, program.tags_path, level=level, size=known)
        for tag in program.foreign_tags:
            self._write(tape_format.TAG, size=tag, after=tape_format.FOREIGN)
        entries = {tag: self._write(tape_format.TAG, size=tag) for tag in program.tagged}
        for tag, instruction in program.tagged.items():
            self._rows[entries[tag]][tape_format.NEXT] = self._here()
            self._field(instruction, wanted, level + 1)
            self._write(tape_format.TAG_END, instruction.path, level=level, after=following)
        self._rows[section][tape_format.NEXT] = self._rows[following][tape_format.NEXT] = self._here()


def _without_lead(header: Program) -> Program:
    return replace(header, fields=tuple(field for field in header.fields if field.path not in _LEAD_PATHS))


def _row(
    operation: int,
    *,
    path: int = -1,
    column: int = tape_format.UNWANTED,
    size: int = 0,
    after: int = 0,
    flags: int = 0,
    level: int = 0,
) -> list[int]:
    row = [0] * tape_format.WIDTH
    row[tape_format.OPERATION] = operation
    row[tape_format.PATH] = path
    row[tape_format.COLUMN] = column
    row[tape_format.SIZE] = size
    row[tape_format.NEXT] = after
    row[tape_format.FLAGS] = flags
    row[tape_format.LEVEL] = level
    return row


def _column(instruction: Instruction, wanted: Wanted) -> int:
    return wanted.get(instruction.path, tape_format.UNWANTED)


def _flags(instruction: Instruction) -> int:
    return (
        tape_format.COMPACT * instruction.compact
        | tape_format.NULLABLE * instruction.nullable
        | tape_format.TAGGED * (instruction.tag is not None)
    )
