"""The machine: what a tape is run with, and how it notes what it finds, refuses and remarks upon."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from decoders.codec.columnar.head import NO_FAILURE, NO_LAYOUT
from decoders.codec.columnar.operations import CLIENT_ID, INSTANCE_ID
from decoders.compilation import inlined, outlined

FOUND: Final = 0
REMARKS: Final = 1
CONTENTS: Final = 2
CLIENT_IDS: Final = 3
"""The elements of `counts`."""

FAILED: Final = -1
"""A position: the frame cannot be read on."""


class Machine(NamedTuple):
    """What a tape is run with: the arrays it is read from and written to.

    `head` is that of the frame at hand. `found` and `remarks` are rows: frame, column, value or begin,
    length (0 of a value), place in `contents`; and frame, oddity, path, offset. `contents` are the bytes
    that were found, `client_ids` those of all client IDs, both in the order of the frames. `counts` tells
    how much of each is taken, or would be if there were room.
    """

    tape: Any
    data: Any
    head: Any
    contents: Any
    client_ids: Any
    found: Any
    remarks: Any
    counts: Any
    counters: Any


class Frame(NamedTuple):
    """One frame: its number in the batch, and where in the data it begins and ends."""

    number: int
    begin: int
    end: int
    is_cut: bool


@inlined
def cell(tape: Any, row: int, column: int) -> Any:
    return tape[np.uint64(row + column)]  # an index without a sign needs no check for one


@outlined
def fail(machine: Machine, frame: Frame, reason: int, path: int, position: int) -> int:
    head = machine.head
    head.failure_reason = reason
    head.failure_path = path
    head.failure_offset = position - frame.begin
    return FAILED


@inlined
def pardon(head: Any) -> None:
    head.failure_reason = NO_FAILURE
    head.failure_path = -1
    head.failure_offset = -1


@outlined
def remark(machine: Machine, frame: Frame, oddity: int, path: int, position: int) -> None:
    """Note an oddity, the first of its sort at each path of a frame; without room, only count it."""
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
def find(machine: Machine, frame: Frame, column: int, value: int, length: int) -> None:
    """Note a wanted field: its value and 0, or its place; without room, only count it."""
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
def _keep(machine: Machine, kept: Any, count: int, begin: int, length: Any) -> Any:
    """Copy bytes out of the frame, while the processor has them at hand; without room, only count them."""
    place, data = machine.counts[count], machine.data
    machine.counts[count] = place + length
    if place + length <= len(kept):
        for offset in range(length):
            kept[np.uint64(place + offset)] = data[np.uint64(begin + offset)]
    return place


@inlined
def keep_contents(machine: Machine, found: int) -> None:
    """Keep the bytes that were found of a frame, from the row `found` on, and its client ID."""
    head, rows = machine.head, machine.found
    if head.client_id_length > 0:
        _keep(machine, machine.client_ids, CLIENT_IDS, head.client_id_begin, np.int64(head.client_id_length))
    for row in range(found, min(machine.counts[FOUND], len(rows))):
        at = np.uint64(row)
        rows[at, 4] = _keep(machine, machine.contents, CONTENTS, rows[at, 2], rows[at, 3])


@inlined
def clear(head: Any) -> None:
    """Forget all that a reading says of a frame."""
    head.client_id_begin = -1
    head.client_id_length = -1
    head.client_instance_id_begin = -1
    head.body_version = -1
    head.header_version = -1
    head.layout = NO_LAYOUT
    head.has_unknown_header_tags = False
    head.has_odd_header = False
    head.has_body = False
    pardon(head)


@inlined
def forget(machine: Machine, found: int, remarks: int) -> None:
    """Take back what a reading said of a frame, and what it noted beyond the two counts."""
    clear(machine.head)
    machine.counts[FOUND] = found
    machine.counts[REMARKS] = remarks
