"""Compiled: what a tape is run with, and how values, remarks and failures are recorded."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from decoders.codec.columnar.head import NO_FAILURE, NO_LAYOUT
from decoders.codec.columnar.tape_format import CLIENT_ID, INSTANCE_ID
from decoders.compilation import inlined, outlined

FOUND: Final = 0
REMARKS: Final = 1
"""The elements of `counts`."""

LEFT: Final = 0
"""Elements or tags that are not yet read."""
LAST_TAG: Final = 1
FIELD_BEGIN: Final = 2
FIELD_END: Final = 3
"""Where a tagged field begins and ends. These are the columns of `counters`."""

FAILED: Final = -1
"""A position: the rest of the frame cannot be read."""


class Machine(NamedTuple):
    """What a tape is run with: the arrays it is read from and written to.

    `head` (HEAD) is the record of the frame that is being read. `found` and `remarks` (int64, four columns)
    get a row for each wanted value and each remark, see `DecodedFrames`. `counts` (int64) says how many rows
    each of the two has, or would have if there were room. `counters` (int64) has a row for each level of
    nesting.
    """

    tape: Any
    data: Any
    head: Any
    found: Any
    remarks: Any
    counts: Any
    counters: Any


class FrameSpan(NamedTuple):
    """One frame: its number in the batch, and where in the data it begins and ends."""

    number: int
    begin: int
    end: int
    is_cut: bool


@inlined
def cell(tape: Any, row: int, column: int) -> Any:
    """Return a cell of a row; an unsigned index spares the check for a negative one."""
    return tape[np.uint64(row + column)]


@outlined
def fail(machine: Machine, frame: FrameSpan, reason: int, path: int, position: int) -> int:
    """Record why and where the frame cannot be read; return FAILED."""
    head = machine.head
    head.failure_reason = reason
    head.failure_path = path
    head.failure_offset = position - frame.begin
    return FAILED


@inlined
def clear_failure(head: Any) -> None:
    head.failure_reason = NO_FAILURE
    head.failure_path = -1
    head.failure_offset = -1


@outlined
def remark(machine: Machine, frame: FrameSpan, oddity: int, path: int, position: int) -> None:
    """Record an oddity, once for each path of a frame. Without room, it is only counted."""
    remarks, count = machine.remarks, machine.counts[REMARKS]
    at = min(count, len(remarks)) - 1
    while at >= 0 and remarks[at, 0] == frame.number:
        if remarks[at, 1] == oddity and remarks[at, 2] == path:
            return
        at -= 1
    if count < len(remarks):
        remarks[count, 0] = frame.number
        remarks[count, 1] = oddity
        remarks[count, 2] = path
        remarks[count, 3] = position - frame.begin
    machine.counts[REMARKS] = count + 1


@inlined
def note_value(machine: Machine, frame: FrameSpan, column: int, value: int, length: int) -> None:
    """Record a wanted field: its place, or its value and 0. Without room, it is only counted."""
    if column == CLIENT_ID:
        machine.head.client_id_begin = value
        machine.head.client_id_length = length
    elif column == INSTANCE_ID:
        machine.head.client_instance_id_begin = value
    else:
        found, count = machine.found, machine.counts[FOUND]
        if count < len(found):
            found[count, 0] = frame.number
            found[count, 1] = column
            found[count, 2] = value
            found[count, 3] = length
        machine.counts[FOUND] = count + 1


@inlined
def clear(head: Any) -> None:
    """Clear what a tape writes into a head."""
    head.client_id_begin = -1
    head.client_id_length = -1
    head.client_instance_id_begin = -1
    head.body_version = -1
    head.header_version = -1
    head.layout = NO_LAYOUT
    head.has_unknown_header_tags = False
    head.has_odd_header = False
    head.has_body = False
    clear_failure(head)


@inlined
def discard(machine: Machine, found: int, remarks: int) -> None:
    """Discard what a reading wrote into the head, and all rows beyond these counts."""
    clear(machine.head)
    machine.counts[FOUND] = found
    machine.counts[REMARKS] = remarks
