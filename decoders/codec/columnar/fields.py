"""Compiled: fields of fixed size, and the beginnings of arrays and of nullable structs."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.head import TRUNCATED
from decoders.codec.columnar.machine import FAILED, FrameSpan, Machine, cell, fail, note_value
from decoders.codec.columnar.memory import int16, int32, int64, is_zero, wide
from decoders.codec.columnar.strings import read_length, read_varint
from decoders.codec.columnar.tape_format import (
    COLUMN,
    FLAGS,
    INSTANCE_ID,
    LEVEL,
    NEXT,
    PATH,
    PLACE,
    SIGNED,
    SIZE,
    TAGGED,
    UNWANTED,
    VARIABLE,
    WIDTH,
)
from decoders.compilation import inlined


@inlined
def _number(data: Any, position: int, size: int, is_signed: int) -> Any:
    if size == 1:
        value = wide(data[np.uint64(position)])
    elif size == 2:
        value = wide(int16(data, position))
    elif size == 4:
        value = wide(int32(data, position))
    else:
        return int64(data, position)
    unused = 64 - 8 * size
    return (value << unused) >> unused if is_signed else value & ((1 << 8 * size) - 1)


@inlined
def read_fixed(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Read a field of fixed size; return the position after it, or FAILED."""
    size = wide(cell(machine.tape, row, SIZE))
    if frame.end - position < size:
        return fail(machine, frame, TRUNCATED, cell(machine.tape, row, PATH), position)
    column, flags = cell(machine.tape, row, COLUMN), cell(machine.tape, row, FLAGS)
    if column == UNWANTED:
        return position + size
    if flags & PLACE:
        # A tagged field with its default value counts as absent.
        is_present = column != INSTANCE_ID or not flags & TAGGED or not is_zero(machine.data, position)
        note_value(machine, frame, column, position if is_present else -1, size)
        return position + size
    note_value(machine, frame, column, _number(machine.data, position, size, flags & SIGNED), 0)
    return position + size


@inlined
def begin_array(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Begin an array; return the position of its first element, or FAILED, and the row to continue with."""
    tape, start = machine.tape, position
    length, position = read_length(machine, frame, position, row, 4)
    after, column = wide(cell(tape, row, NEXT)), cell(tape, row, COLUMN)
    if column != UNWANTED and position != FAILED:
        note_value(machine, frame, column, length, 0)
    if position == FAILED or length <= 0:
        return position, after
    # Kafka refuses an array with more elements than bytes are left, whatever the size of an element.
    if length > frame.end - position:
        return fail(machine, frame, TRUNCATED, cell(tape, row, PATH), start), after
    size = wide(cell(tape, row, SIZE))
    if size != VARIABLE and length * size <= frame.end - position:
        return position + length * size, after
    machine.counters[cell(tape, row, LEVEL), 0] = length
    return position, row + WIDTH


@inlined
def read_struct_marker(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Read whether a nullable struct is present: from a signed byte, or from a varint in a tagged field.

    Returns that and the position after the marker, or FAILED.
    """
    path = cell(machine.tape, row, PATH)
    if cell(machine.tape, row, FLAGS) & TAGGED:
        marker, position = read_varint(machine, frame, position, path)
        return marker > 0, position
    if position >= frame.end:
        return False, fail(machine, frame, TRUNCATED, path, position)
    return machine.data[np.uint64(position)] < 0x80, position + 1
