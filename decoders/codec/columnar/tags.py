"""Tag sections: the fields that a version may or may not have, each behind its tag and size."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.head import INVALID_LENGTH, INVALID_TAG, TAG_ORDER, TRUNCATED
from decoders.codec.columnar.lengths import read_varint
from decoders.codec.columnar.machine import FAILED, Frame, Machine, cell, fail, remark
from decoders.codec.columnar.numbers import wide
from decoders.codec.columnar.operations import FOREIGN, LEVEL, NEXT, PATH, SIZE, WIDTH
from decoders.compilation import inlined, outlined


@inlined
def begin_tags(machine: Machine, frame: Frame, position: int, row: int) -> Any:
    """Begin a tag section; gives the position of its first tag, or FAILED, and the row to go on at."""
    after = wide(cell(machine.tape, row, NEXT))
    if position < frame.end and machine.data[np.uint64(position)] == 0:
        return position + 1, after
    start, path = position, cell(machine.tape, row, PATH)
    count, position = read_varint(machine, frame, position, path)
    if position == FAILED or count == 0:
        return position, after
    if count < 0:
        return fail(machine, frame, INVALID_LENGTH, path, start), after
    level = cell(machine.tape, row, LEVEL)
    machine.counters[level, 0] = count
    machine.counters[level, 1] = -1
    return position, row + WIDTH


@outlined
def read_tag(  # noqa: PLR0911 - each way out is another end
    machine: Machine, frame: Frame, position: int, row: int
) -> Any:
    """Read a tag and, if the schema does not know it, its field; else go on at the field's row."""
    tape, counters = machine.tape, machine.counters
    level, path, start = cell(tape, row, LEVEL), cell(tape, row, PATH), position
    if counters[level, 0] == 0:
        return position, wide(cell(tape, row, NEXT))
    counters[level, 0] -= 1
    tag, position = read_varint(machine, frame, position, path)
    if position == FAILED:
        return position, row
    size, position = read_varint(machine, frame, position, path)
    if position == FAILED:
        return position, row
    if tag <= counters[level, 1]:
        remark(machine, frame, TAG_ORDER, path, start)
    counters[level, 1] = tag
    entry, last = row + WIDTH, row + WIDTH * wide(cell(tape, row, SIZE))
    while entry <= last and cell(tape, entry, SIZE) != tag:
        entry += WIDTH
    if entry > last:
        if size < 0:
            return fail(machine, frame, INVALID_LENGTH, path, start), row
        if size > frame.end - position:
            return fail(machine, frame, TRUNCATED, path, start), row
        if machine.head.header_version < 0:
            machine.head.has_unknown_header_tags = True
        return position + size, row
    if cell(tape, entry, NEXT) == FOREIGN:
        return fail(machine, frame, INVALID_TAG, path, start), row
    counters[level, 2] = position
    counters[level, 3] = position + size
    return position, wide(cell(tape, entry, NEXT))
