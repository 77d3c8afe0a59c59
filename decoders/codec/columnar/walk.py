"""Compiled: a tape run over one frame, header and body, to its last byte or to the failure."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.fields import begin_array, read_fixed, read_struct_marker
from decoders.codec.columnar.head import (
    FRAME_PATH,
    INVALID_LENGTH,
    INVALID_TAG,
    TAG_ORDER,
    TAG_SIZE_MISMATCH,
    TRAILING_BYTES,
    TRUNCATED,
)
from decoders.codec.columnar.machine import (
    FAILED,
    FIELD_BEGIN,
    FIELD_END,
    FOUND,
    LAST_TAG,
    LEFT,
    REMARKS,
    FrameSpan,
    Machine,
    cell,
    clear_failure,
    fail,
    remark,
)
from decoders.codec.columnar.memory import wide
from decoders.codec.columnar.strings import read_content, read_varint
from decoders.codec.columnar.tape_format import (
    ARRAY,
    ARRAY_NEXT,
    BYTES,
    FIXED,
    FLAGS,
    FOREIGN,
    HEADER_END,
    LEVEL,
    NEXT,
    OPERATION,
    PATH,
    SIZE,
    SPAN,
    STRING,
    STRUCT,
    TAG_END,
    TAGS,
    TAGS_NEXT,
    WIDTH,
)
from decoders.compilation import inlined, outlined


@inlined
def read_frame(machine: Machine, frame: FrameSpan, lead: int, entry: int) -> bool:
    """Read what follows the lead of a frame, as `codec/reading.py` does.

    Returns whether the frame was read to its last byte.
    """
    found = machine.counts[FOUND]
    position = _walk(machine, frame, frame.begin + lead, entry)
    head = machine.head
    if position == FAILED:
        machine.counts[FOUND] = found
        if frame.is_cut and head.failure_reason == TRUNCATED:
            clear_failure(head)
        return False
    head.has_body = True
    if position != frame.end and not frame.is_cut:
        remark(machine, frame, TRAILING_BYTES, FRAME_PATH, position)
    return position == frame.end


@outlined
def _walk(machine: Machine, frame: FrameSpan, begin: int, entry: int) -> int:  # noqa: PLR0912 - one branch an operation
    """Run the tape from a row and a position to END; return the position reached, or FAILED."""
    tape, counters = machine.tape, machine.counters
    row, position = wide(entry), begin
    while position != FAILED:
        operation = cell(tape, row, OPERATION)
        if operation == SPAN:
            if frame.end - position >= cell(tape, row, SIZE):
                position += cell(tape, row, SIZE)
                row = wide(cell(tape, row, NEXT))
            else:
                row += WIDTH
        elif operation in (STRING, BYTES):
            position = read_content(machine, frame, position, row)
            row += WIDTH
        elif operation == TAGS:
            position, row = _begin_tags(machine, frame, position, row)
        elif operation == FIXED:
            position = read_fixed(machine, frame, position, row)
            row += WIDTH
        elif operation == ARRAY:
            position, row = begin_array(machine, frame, position, row)
        elif operation == ARRAY_NEXT:
            level = cell(tape, row, LEVEL)
            counters[level, LEFT] -= 1
            row = wide(cell(tape, row, NEXT)) if counters[level, LEFT] > 0 else row + WIDTH
        elif operation == STRUCT:
            is_present, position = read_struct_marker(machine, frame, position, row)
            row = row + WIDTH if is_present else wide(cell(tape, row, NEXT))
        elif operation == TAGS_NEXT:
            position, row = _read_tag(machine, frame, position, row)
        elif operation == TAG_END:
            level = cell(tape, row, LEVEL)
            if position != counters[level, FIELD_END]:
                remark(machine, frame, TAG_SIZE_MISMATCH, cell(tape, row, PATH), counters[level, FIELD_BEGIN])
            row = wide(cell(tape, row, NEXT))
        elif operation == HEADER_END:
            _end_header(machine, frame, row)
            row += WIDTH
        else:
            break
    return position


@inlined
def _end_header(machine: Machine, frame: FrameSpan, row: int) -> None:
    head, count = machine.head, machine.counts[REMARKS]
    head.header_version = cell(machine.tape, row, SIZE)
    head.layout = cell(machine.tape, row, FLAGS)
    if count > 0:
        head.has_odd_header = machine.remarks[min(count, len(machine.remarks)) - 1, 0] == frame.number


@inlined
def _begin_tags(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Begin a tag section; return the position of its first tag, or FAILED, and the row to continue with."""
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
    machine.counters[level, LEFT] = count
    machine.counters[level, LAST_TAG] = -1
    return position, row + WIDTH


@outlined
def _read_tag(  # noqa: PLR0911 - several outcomes
    machine: Machine, frame: FrameSpan, position: int, row: int
) -> Any:
    """Read a tag; skip its field if the schema does not know it, else continue with the field's row."""
    tape, counters = machine.tape, machine.counters
    level, path, start = cell(tape, row, LEVEL), cell(tape, row, PATH), position
    if counters[level, LEFT] == 0:
        return position, wide(cell(tape, row, NEXT))
    counters[level, LEFT] -= 1
    tag, position = read_varint(machine, frame, position, path)
    if position == FAILED:
        return position, row
    size, position = read_varint(machine, frame, position, path)
    if position == FAILED:
        return position, row
    if tag <= counters[level, LAST_TAG]:
        remark(machine, frame, TAG_ORDER, path, start)
    counters[level, LAST_TAG] = tag
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
    counters[level, FIELD_BEGIN] = position
    counters[level, FIELD_END] = position + size
    return position, wide(cell(tape, entry, NEXT))
