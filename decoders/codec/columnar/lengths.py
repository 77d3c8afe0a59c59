"""Varints, and the lengths that stand before strings, bytes and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.head import (
    INVALID_VARINT,
    NEGATIVE_LENGTH,
    NULL_NOT_ALLOWED,
    OVERLONG_VARINT,
    TRUNCATED,
)
from decoders.codec.columnar.machine import FAILED, Frame, Machine, cell, fail, remark
from decoders.codec.columnar.numbers import int16, int32, wide
from decoders.codec.columnar.operations import COMPACT, FLAGS, NULLABLE, PATH
from decoders.compilation import inlined, outlined


@outlined
def _read_long_varint(machine: Machine, frame: Frame, position: int, path: int) -> Any:
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
def read_varint(machine: Machine, frame: Frame, position: int, path: int) -> Any:
    """Read an unsigned varint into an int32; gives it and the position behind it, or FAILED."""
    if position < frame.end and machine.data[np.uint64(position)] < 0x80:
        return np.int32(machine.data[np.uint64(position)]), position + 1
    return _read_long_varint(machine, frame, position, path)


@inlined
def read_length(machine: Machine, frame: Frame, position: int, row: int, width: int) -> Any:
    """Read a length, -1 for a null that is allowed; gives it and the position behind it, or FAILED."""
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
