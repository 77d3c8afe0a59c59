"""Writes the programs of all messages onto one tape of integers for the machine to run.

A row of the tape stands for an instruction; `codec/columnar/operations.py` says what its columns mean.
Structs are written where they stand, so that only arrays and tagged fields need a level to count in.
Neighbours of fixed size are put under one SPAN, and an array knows the size of its elements where all
of them have the same: both are passed over in one step, unless something in them is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from decoders.codec.columnar import head, operations
from decoders.codec.header_layout import layout_of
from decoders.codec.program import NUMBERS, Instruction, Kind, Program
from decoders.schema.header_versions import Layout

_SIZES: Final = {kind: layout.size for kind, layout in NUMBERS.items()} | {Kind.UUID: 16}
_FLAGS: Final = {
    Kind.INT8: operations.SIGNED,
    Kind.INT16: operations.SIGNED,
    Kind.INT32: operations.SIGNED,
    Kind.UUID: operations.PLACE,
}
_LEAD_PATHS: Final = ("", "header.requestApiKey", "header.requestApiVersion", "header.correlationId")
"""The kernel knows these by their numbers."""
_LAYOUTS: Final = {
    None: head.NO_LAYOUT,
    Layout.PLAIN: head.PLAIN_LAYOUT,
    Layout.TAGGED: head.TAGGED_LAYOUT,
}

Wanted = Mapping[str, int]
"""The columns that paths of a message go to."""

_HEADER_WANTED: Final = {
    "header.clientId": operations.CLIENT_ID,
    "header.clientInstanceId": operations.INSTANCE_ID,
}


class Tape:
    """A tape as it is written. `paths` are the paths of fields by number, `levels` how many there are."""

    def __init__(self) -> None:
        self.levels = 1
        self._rows: list[list[int]] = []
        self._paths = {path: number for number, path in enumerate(_LEAD_PATHS)}
        self._span: list[list[int]] = []

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def rows(self) -> npt.NDArray[np.int32]:
        """Give the rows written so far, one behind the other: int32, `WIDTH` cells an instruction."""
        rows = np.array(self._rows, np.int32)
        rows[:, operations.NEXT] *= operations.WIDTH
        return rows.reshape(-1)

    def write_frame(self, header_version: int, header: Program, body: Program | None, wanted: Wanted) -> int:
        """Write the layout of a frame, or of its header alone, behind its lead; gives where it begins."""
        entry = self._here()
        self._struct(_without_lead(header), _HEADER_WANTED, 0)
        self._write(operations.HEADER_END, size=header_version, flags=_LAYOUTS[layout_of(header)])
        if body is not None:
            self._struct(body, wanted, 0)
        self._write(operations.END)
        return entry * operations.WIDTH

    def _here(self) -> int:
        """Tell the number of the next row, with nothing left to write before it."""
        span, self._span = self._span, []
        if len(span) > 1:
            size = sum(row[operations.SIZE] for row in span)
            after = len(self._rows) + 1 + len(span)
            self._rows.append(_row(operations.SPAN, size=size, after=after))
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
        elif instruction.kind is Kind.STRUCT:
            self._nested(instruction, wanted, level)
        elif instruction.kind is Kind.ARRAY:
            self._array(instruction, wanted, level)
        else:
            operation = operations.STRING if instruction.kind is Kind.STRING else operations.BYTES
            self._write(
                operation, instruction.path, column=_column(instruction, wanted), flags=_flags(instruction)
            )

    def _fixed(self, instruction: Instruction, wanted: Wanted) -> None:
        row = _row(
            operations.FIXED,
            path=self._path(instruction.path),
            size=_SIZES[instruction.kind],
            column=_column(instruction, wanted),
            flags=_FLAGS.get(instruction.kind, 0) | _flags(instruction),
        )
        if row[operations.COLUMN] == operations.UNWANTED:
            self._span.append(row)
        else:
            self._here()
            self._rows.append(row)

    def _nested(self, instruction: Instruction, wanted: Wanted, level: int) -> None:
        assert instruction.program is not None
        if not instruction.nullable:
            self._struct(instruction.program, wanted, level)
            return
        marker = self._write(operations.STRUCT, instruction.path, flags=_flags(instruction))
        self._struct(instruction.program, wanted, level)
        self._rows[marker][operations.NEXT] = self._here()

    def _array(self, instruction: Instruction, wanted: Wanted, level: int) -> None:
        assert instruction.element is not None
        self.levels = max(self.levels, level + 1)
        array = self._write(operations.ARRAY, instruction.path, flags=_flags(instruction), level=level)
        first = self._here()
        self._field(instruction.element, wanted, level + 1)
        self._rows[array][operations.SIZE] = self._fixed_size(first, self._here())
        self._write(operations.ARRAY_NEXT, level=level, after=first)
        self._rows[array][operations.NEXT] = self._here()

    def _fixed_size(self, first: int, end: int) -> int:
        """Tell how many bytes some rows read, VARIABLE if that is not known or something is wanted."""
        rows = [row for row in self._rows[first:end] if row[operations.OPERATION] != operations.SPAN]
        if all(row[operations.OPERATION] == operations.FIXED and row[operations.COLUMN] < 0 for row in rows):
            return sum(row[operations.SIZE] for row in rows)
        return operations.VARIABLE

    def _tags(self, program: Program, wanted: Wanted, level: int) -> None:
        known = len(program.tagged) + len(program.foreign_tags)
        section = self._write(operations.TAGS, program.tags_path, level=level)
        following = self._write(operations.TAGS_NEXT, program.tags_path, level=level, size=known)
        for tag in program.foreign_tags:
            self._write(operations.TAG, size=tag, after=operations.FOREIGN)
        entries = {tag: self._write(operations.TAG, size=tag) for tag in program.tagged}
        for tag, instruction in program.tagged.items():
            self._rows[entries[tag]][operations.NEXT] = self._here()
            self._field(instruction, wanted, level + 1)
            self._write(operations.TAG_END, instruction.path, level=level, after=following)
        self._rows[section][operations.NEXT] = self._rows[following][operations.NEXT] = self._here()


def _without_lead(header: Program) -> Program:
    return replace(header, fields=tuple(field for field in header.fields if field.path not in _LEAD_PATHS))


def _row(
    operation: int,
    *,
    path: int = -1,
    column: int = operations.UNWANTED,
    size: int = 0,
    after: int = 0,
    flags: int = 0,
    level: int = 0,
) -> list[int]:
    row = [0] * operations.WIDTH
    row[operations.OPERATION] = operation
    row[operations.PATH] = path
    row[operations.COLUMN] = column
    row[operations.SIZE] = size
    row[operations.NEXT] = after
    row[operations.FLAGS] = flags
    row[operations.LEVEL] = level
    return row


def _column(instruction: Instruction, wanted: Wanted) -> int:
    return wanted.get(instruction.path, operations.UNWANTED)


def _flags(instruction: Instruction) -> int:
    return (
        operations.COMPACT * instruction.compact
        | operations.NULLABLE * instruction.nullable
        | operations.TAGGED * (instruction.tag is not None)
    )
