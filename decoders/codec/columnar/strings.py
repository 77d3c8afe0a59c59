"""Compiled: varints and lengths, and what they are put before: strings, bytes and records."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.codec.columnar.head import (
    INVALID_LENGTH,
    INVALID_UTF8,
    INVALID_VARINT,
    NEGATIVE_LENGTH,
    NULL_NOT_ALLOWED,
    OVERLONG_VARINT,
    TRUNCATED,
)
from decoders.codec.columnar.machine import FAILED, FrameSpan, Machine, cell, fail, note_value, remark
from decoders.codec.columnar.memory import int16, int32, int64, wide
from decoders.codec.columnar.tape_format import (
    COLUMN,
    COMPACT,
    FLAGS,
    NULLABLE,
    OPERATION,
    PATH,
    STRING,
    UNWANTED,
)
from decoders.compilation import inlined, outlined

_HIGHEST_STRING_LENGTH: Final = 0x7FFF


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
def read_varint(machine: Machine, frame: FrameSpan, position: int, path: int) -> Any:
    """Read an unsigned varint as int32; return it and the position after it, or FAILED."""
    if position < frame.end and machine.data[np.uint64(position)] < 0x80:
        return np.int32(machine.data[np.uint64(position)]), position + 1
    return _read_long_varint(machine, frame, position, path)


@inlined
def read_length(machine: Machine, frame: FrameSpan, position: int, row: int, width: int) -> Any:
    """Read a length, -1 for a null that is allowed; return it and the position after it, or FAILED."""
    start, path, flags = position, cell(machine.tape, row, PATH), cell(machine.tape, row, FLAGS)
    if flags & COMPACT:
        value, position = read_varint(machine, frame, position, path)
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
def read_content(machine: Machine, frame: FrameSpan, position: int, row: int) -> Any:
    """Read a string, bytes or records; return the position after them, or FAILED."""
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
    if is_string and not _is_ascii(data, position, after) and not _is_utf8(data, position, after):
        remark(machine, frame, INVALID_UTF8, cell(tape, row, PATH), start)
    if cell(tape, row, COLUMN) != UNWANTED:
        note_value(machine, frame, cell(tape, row, COLUMN), position, length)
    return after


@inlined
def _is_ascii(data: Any, begin: int, end: int) -> Any:
    """Test eight bytes at a time; the last ones, if fewer, with those that follow them in the data."""
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
    """Return whether bytes are UTF-8 by Python's rules: no surrogates, no overlong forms."""
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
