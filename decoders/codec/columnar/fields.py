"""Fields: numbers, strings, bytes, and the beginnings of arrays and of structs that may be null."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.codec.columnar.head import INVALID_LENGTH, INVALID_UTF8, TRUNCATED
from decoders.codec.columnar.lengths import read_length, read_varint
from decoders.codec.columnar.machine import FAILED, Frame, Machine, cell, fail, find, remark
from decoders.codec.columnar.numbers import int16, int32, int64, is_zero, wide
from decoders.codec.columnar.operations import (
    COLUMN,
    FLAGS,
    INSTANCE_ID,
    LEVEL,
    NEXT,
    OPERATION,
    PATH,
    PLACE,
    SIGNED,
    SIZE,
    STRING,
    TAGGED,
    UNWANTED,
    VARIABLE,
    WIDTH,
)
from decoders.codec.columnar.text import is_ascii, is_utf8
from decoders.compilation import inlined

_HIGHEST_STRING_LENGTH: Final = 0x7FFF


@inlined
def read_content(machine: Machine, frame: Frame, position: int, row: int) -> Any:
    """Read a string, bytes or records; gives the position behind them, or FAILED."""
    tape, start = machine.tape, position
    is_string = cell(tape, row, OPERATION) == STRING
    length, position = read_length(machine, frame, position, row, 2 if is_string else 4)
    if position == FAILED or length < 0:
        return position
    if is_string and length > _HIGHEST_STRING_LENGTH:
        return fail(machine, frame, INVALID_LENGTH, cell(tape, row, PATH), start)
    if length > frame.end - position:
        return fail(machine, frame, TRUNCATED, cell(tape, row, PATH), start)
    after, data = position + length, machine.data
    if is_string and not is_ascii(data, position, after) and not is_utf8(data, position, after):
        remark(machine, frame, INVALID_UTF8, cell(tape, row, PATH), start)
    if cell(tape, row, COLUMN) != UNWANTED:
        find(machine, frame, cell(tape, row, COLUMN), position, length)
    return after


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
def read_fixed(machine: Machine, frame: Frame, position: int, row: int) -> Any:
    """Read a field of fixed size; gives the position behind it, or FAILED."""
    size = wide(cell(machine.tape, row, SIZE))
    if frame.end - position < size:
        return fail(machine, frame, TRUNCATED, cell(machine.tape, row, PATH), position)
    column, flags = cell(machine.tape, row, COLUMN), cell(machine.tape, row, FLAGS)
    if column == UNWANTED:
        return position + size
    if flags & PLACE:
        # A tagged field that has its default counts as one that is not there.
        is_there = column != INSTANCE_ID or not flags & TAGGED or not is_zero(machine.data, position)
        find(machine, frame, column, position if is_there else -1, size)
        return position + size
    find(machine, frame, column, _number(machine.data, position, size, flags & SIGNED), 0)
    return position + size


@inlined
def begin_array(machine: Machine, frame: Frame, position: int, row: int) -> Any:
    """Begin an array; gives the position of its first element, or FAILED, and the row to go on at."""
    tape, start = machine.tape, position
    length, position = read_length(machine, frame, position, row, 4)
    after = wide(cell(tape, row, NEXT))
    if position == FAILED or length <= 0:
        return position, after
    # Kafka refuses an array with more elements than bytes are left, whatever an element takes.
    if length > frame.end - position:
        return fail(machine, frame, TRUNCATED, cell(tape, row, PATH), start), after
    size = wide(cell(tape, row, SIZE))
    if size != VARIABLE and length * size <= frame.end - position:
        return position + length * size, after
    machine.counters[cell(tape, row, LEVEL), 0] = length
    return position, row + WIDTH


@inlined
def is_present(machine: Machine, frame: Frame, position: int, row: int) -> Any:
    """Read the marker of a struct: a signed byte, but a varint in a tagged field."""
    path = cell(machine.tape, row, PATH)
    if cell(machine.tape, row, FLAGS) & TAGGED:
        marker, position = read_varint(machine, frame, position, path)
        return marker > 0, position
    if position >= frame.end:
        return False, fail(machine, frame, TRUNCATED, path, position)
    return machine.data[np.uint64(position)] < 0x80, position + 1
