"""Compiled: runs the tape over one frame, header and body, to its last byte or to the failure.

`codec/reader.py` defines what is read and refused, which remarks are made, and in which order. Each length or
count in a frame is checked against the bytes that are there, so nothing outside a frame is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.frames import (
    FRAME_PATH,
    INVALID_LENGTH,
    INVALID_TAG,
    INVALID_UTF8,
    INVALID_VARINT,
    NEGATIVE_LENGTH,
    NULL_NOT_ALLOWED,
    OVERLONG_VARINT,
    TAG_ORDER,
    TAG_SIZE_MISMATCH,
    TRAILING_BYTES,
    TRUNCATED,
)
from decoders.codec.columnar.tape import (
    ARRAY,
    ARRAY_NEXT,
    BYTES,
    COLUMN,
    COMPACT,
    FAILED,
    FIELD_BEGIN,
    FIELD_END,
    FIXED,
    FLAGS,
    FOREIGN,
    FOUND,
    HEADER_END,
    INSTANCE_ID,
    LAST_TAG,
    LEFT,
    LEVEL,
    NEXT,
    NULLABLE,
    OPERATION,
    PATH,
    PLACE,
    REMARKS,
    SIGNED,
    SIZE,
    SPAN,
    STRING,
    STRUCT,
    TAG_END,
    TAGGED,
    TAGS,
    TAGS_NEXT,
    UNWANTED,
    VARIABLE,
    WIDTH,
    FrameSpan,
    Machine,
    cell,
    clear_failure,
    fail,
    note_value,
    remark,
)
from decoders.codec.program import HIGHEST_STRING_LENGTH
from decoders.compilation import inlined, outlined
from decoders.memory import int16, int32, int64, is_zero, wide


@inlined
def read_frame(machine: Machine, frame: FrameSpan, lead: int, entry: int) -> bool:
    """Read what follows the lead of a frame, as `read_frame` of `codec/reader.py` does.

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
            position = _read_content(machine, frame, position, row)
            row += WIDTH
        elif operation == TAGS:
            position, row = _begin_tags(machine, frame, position, row)
        elif operation == FIXED:
            position = _read_fixed(machine, frame, position, row)
            row += WIDTH
        elif operation == ARRAY:
            position, row = _begin_array(machine, frame, position, row)
        elif operation == ARRAY_NEXT:
            level = cell(tape, row, LEVEL)
            counters[level, LEFT] -= 1
            row = wide(cell(tape, row, NEXT)) if counters[level, LEFT] > 0 else row + WIDTH
        elif operation == STRUCT:
            is_present, position = _read_struct_marker(machine, frame, position, row)
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
    count, position = _read_varint(machine, frame, position, path)
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
    """Read a tag and its size; skip an unknown tag's content, else continue with the row of its field."""
    tape, counters = machine.tape, machine.counters
    level, path, start = cell(tape, row, LEVEL), cell(tape, row, PATH), position
    if counters[level, LEFT] == 0:
        return position, wide(cell(tape, row, NEXT))
    counters[level, LEFT] -= 1
    tag, position = _read_varint(machine, frame, position, path)
    if position == FAILED:
        return position, row
    size, position = _read_varint(machine, frame, position, path)
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
def _read_fixed(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
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
def _begin_array(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Begin an array; return the position of its first element, or FAILED, and the row to continue with."""
    tape, start = machine.tape, position
    length, position = _read_length(machine, frame, position, row, 4)
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
    machine.counters[cell(tape, row, LEVEL), LEFT] = length
    return position, row + WIDTH


@inlined
def _read_struct_marker(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Read the marker of a nullable struct: a signed byte, or a varint in a tagged field.

    Returns whether the struct is present, and the position after the marker, or FAILED.
    """
    path = cell(machine.tape, row, PATH)
    if cell(machine.tape, row, FLAGS) & TAGGED:
        marker, position = _read_varint(machine, frame, position, path)
        return marker > 0, position
    if position >= frame.end:
        return False, fail(machine, frame, TRUNCATED, path, position)
    return machine.data[np.uint64(position)] < 0x80, position + 1


@outlined
def _read_long_varint(machine: Machine, frame: FrameSpan, position: int, path: int) -> Any:
    data, value = machine.data, np.uint64(0)
    available = min(frame.end - position, 5)
    for offset in range(available):
        byte = data[np.uint64(position + offset)]
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * offset)
        if byte < 0x80:
            if byte == 0 or value > np.uint64(0xFFFFFFFF):
                remark(machine, frame, OVERLONG_VARINT, path, position)
            return np.int32(value), position + offset + 1
    reason = INVALID_VARINT if available == 5 else TRUNCATED
    return np.int32(0), fail(machine, frame, reason, path, position)


@inlined
def _read_varint(machine: Machine, frame: FrameSpan, position: int, path: int) -> Any:
    """Read an unsigned varint as int32; return it and the position after it, or FAILED."""
    if position < frame.end and machine.data[np.uint64(position)] < 0x80:
        return np.int32(machine.data[np.uint64(position)]), position + 1
    return _read_long_varint(machine, frame, position, path)


@inlined
def _read_length(machine: Machine, frame: FrameSpan, position: int, row: int, width: int) -> Any:
    """Read a length, -1 for a null that is allowed; return it and the position after it, or FAILED."""
    start, path, flags = position, cell(machine.tape, row, PATH), cell(machine.tape, row, FLAGS)
    if flags & COMPACT:
        value, position = _read_varint(machine, frame, position, path)
        if position == FAILED:
            return wide(0), position
        length = wide(np.int32(value - 1))
    else:
        if frame.end - position < width:
            return wide(0), fail(machine, frame, TRUNCATED, path, start)
        data = machine.data
        length = wide(int16(data, position)) if width == 2 else wide(int32(data, position))
        position += width
    if length < 0:
        if not flags & NULLABLE:
            return length, fail(machine, frame, NULL_NOT_ALLOWED, path, start)
        if length < -1:
            remark(machine, frame, NEGATIVE_LENGTH, path, start)
        length = wide(-1)
    return length, position


@inlined
def _read_content(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Read a string, bytes or records; return the position after them, or FAILED."""
    tape, start = machine.tape, position
    is_string = cell(tape, row, OPERATION) == STRING
    length, position = _read_length(machine, frame, position, row, 2 if is_string else 4)
    if position == FAILED or length < 0:
        return position
    if is_string and length > HIGHEST_STRING_LENGTH:
        return fail(machine, frame, INVALID_LENGTH, cell(tape, row, PATH), start)
    if length > frame.end - position:
        return fail(machine, frame, TRUNCATED, cell(tape, row, PATH), start)
    after, data = position + length, machine.data
    if is_string and not _is_ascii(data, position, after) and not _is_utf8(data, position, after):
        remark(machine, frame, INVALID_UTF8, cell(tape, row, PATH), start)
    if cell(tape, row, COLUMN) != UNWANTED:
        note_value(machine, frame, cell(tape, row, COLUMN), position, length)
    return after


@inlined
def _is_ascii(data: Any, begin: int, end: int) -> Any:
    """Test eight bytes at a time. The last load may reach past `end`; what it reads there is shifted out."""
    at, seen = begin, np.uint64(0)
    while end - at >= 8:
        seen |= np.uint64(int64(data, at))
        at += 8
    if at < end and at + 8 <= len(data):
        seen |= np.uint64(int64(data, at)) >> np.uint64(8 * (at + 8 - end))
    else:
        while at < end:
            seen |= np.uint64(data[np.uint64(at)])
            at += 1
    return seen & np.uint64(0x8080808080808080) == 0


@outlined
def _is_utf8(data: Any, begin: int, end: int) -> bool:
    """Return whether bytes are UTF-8 as Python decodes it: no surrogates, no overlong forms."""
    at = begin
    while at < end:
        lead = data[np.uint64(at)]
        at += 1
        if lead < 0x80:
            continue
        more = 1 + (lead >= 0xE0) + (lead >= 0xF0)
        if lead < 0xC2 or lead > 0xF4 or end - at < more:
            return False
        second = data[np.uint64(at)]
        lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < lowest or second > highest:
            return False
        for offset in range(1, more):
            if data[np.uint64(at + offset)] & 0xC0 != 0x80:
                return False
        at += more
    return True
