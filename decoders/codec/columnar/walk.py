"""Runs a tape over one frame, header and body, to the last byte or to the failure."""

from __future__ import annotations

from decoders.codec.columnar.fields import begin_array, is_present, read_content, read_fixed
from decoders.codec.columnar.head import FRAME_PATH, TAG_SIZE_MISMATCH, TRAILING_BYTES, TRUNCATED
from decoders.codec.columnar.machine import FAILED, FOUND, REMARKS, Frame, Machine, cell, pardon, remark
from decoders.codec.columnar.numbers import wide
from decoders.codec.columnar.operations import (
    ARRAY,
    ARRAY_NEXT,
    BYTES,
    FIXED,
    FLAGS,
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
from decoders.codec.columnar.tags import begin_tags, read_tag
from decoders.compilation import inlined, outlined


@inlined
def _end_header(machine: Machine, frame: Frame, row: int) -> None:
    head, count = machine.head, machine.counts[REMARKS]
    head.header_version = cell(machine.tape, row, SIZE)
    head.layout = cell(machine.tape, row, FLAGS)
    if count > 0:
        head.has_odd_header = machine.remarks[min(count, len(machine.remarks)) - 1, 0] == frame.number


@outlined
def _walk(machine: Machine, frame: Frame, begin: int, entry: int) -> int:  # noqa: PLR0912 - one branch an operation
    """Run the tape from a row and a position until END; gives the position reached, or FAILED."""
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
            position, row = begin_tags(machine, frame, position, row)
        elif operation == FIXED:
            position = read_fixed(machine, frame, position, row)
            row += WIDTH
        elif operation == ARRAY:
            position, row = begin_array(machine, frame, position, row)
        elif operation == ARRAY_NEXT:
            level = cell(tape, row, LEVEL)
            counters[level, 0] -= 1
            row = wide(cell(tape, row, NEXT)) if counters[level, 0] > 0 else row + WIDTH
        elif operation == STRUCT:
            present, position = is_present(machine, frame, position, row)
            row = row + WIDTH if present else wide(cell(tape, row, NEXT))
        elif operation == TAGS_NEXT:
            position, row = read_tag(machine, frame, position, row)
        elif operation == TAG_END:
            start, end = counters[cell(tape, row, LEVEL), 2], counters[cell(tape, row, LEVEL), 3]
            if position != end:
                remark(machine, frame, TAG_SIZE_MISMATCH, cell(tape, row, PATH), start)
            row = wide(cell(tape, row, NEXT))
        elif operation == HEADER_END:
            _end_header(machine, frame, row)
            row += WIDTH
        else:
            break
    return position


@inlined
def read_frame(machine: Machine, frame: Frame, lead: int, entry: int) -> bool:
    """Read a frame behind its lead, as `codec/reading.py` does; tells whether to the last byte."""
    found = machine.counts[FOUND]
    position = _walk(machine, frame, frame.begin + lead, entry)
    head = machine.head
    if position == FAILED:
        machine.counts[FOUND] = found
        if frame.is_cut and head.failure_reason == TRUNCATED:
            pardon(head)
        return False
    head.has_body = True
    if position != frame.end and not frame.is_cut:
        remark(machine, frame, TRAILING_BYTES, FRAME_PATH, position)
    return position == frame.end
