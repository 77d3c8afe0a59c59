"""Compiled: the tape, a program for every frame layout, and the state of the machine that runs it.

A tape is an array of int32 that holds rows of WIDTH cells, one row for each instruction. A row is named by
the index of its first cell. `codec/columnar/reader.py` writes tapes, `codec/columnar/walk.py` runs them. The
machine is at one row of the tape and at one position in the frame, and each operation moves both:

| operation | moves the position past | continues with the row |
|---|---|---|
| SPAN | SIZE bytes: several unwanted fields of fixed size | NEXT; the next one if the frame ends before |
| FIXED | SIZE bytes | the next one |
| STRING, BYTES | a length and the content | the next one |
| STRUCT | the marker of a nullable struct | the next one, its first field; NEXT if it is null |
| ARRAY | the length, and unwanted elements of fixed size | the next one; NEXT if no element is left |
| ARRAY_NEXT | nothing | NEXT, where elements begin, while any is LEFT; then the next one |
| TAGS | the number of tags | the next one, a TAGS_NEXT; NEXT if there are none |
| TAGS_NEXT | a tag and its size | the field's, as a TAG row says; NEXT once none is LEFT |
| TAG_END | nothing; remarks on a size that is wrong | NEXT, the TAGS_NEXT |
| HEADER_END | nothing; notes the header in the head | the next one |
| END | nothing | none: the frame was read |

The fields of a SPAN follow it as FIXED rows: if the frame ends before they do, the run fails at the one that
is truncated. TAG rows follow their TAGS_NEXT and are never run: each names the row (NEXT) at which the field
of a tag begins, or FOREIGN. The content of an unknown tag is skipped. A failure moves the position to FAILED,
which ends the run. Nesting needs no stack that grows: each array and each tag section has a LEVEL, known when
the tape is written, at which it keeps its counters.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from decoders.codec.columnar.frames import NO_FAILURE, NO_LAYOUT
from decoders.compilation import inlined, outlined

# The cells of a row; one is unused, so that rows are aligned.
OPERATION: Final = 0
PATH: Final = 1
"""The number of the field's path."""
COLUMN: Final = 2
"""The number of the column that wants the field, or UNWANTED, CLIENT_ID or INSTANCE_ID."""
SIZE: Final = 3
"""In bytes, of a field or an element. Of a TAGS_NEXT the number of its TAG rows, of a TAG the tag, of a
HEADER_END the header version, whose layout is in FLAGS."""
NEXT: Final = 4
"""The row to continue with if the rows between are skipped."""
FLAGS: Final = 5
LEVEL: Final = 6
WIDTH: Final = 8

UNWANTED: Final = -1
CLIENT_ID: Final = -2
INSTANCE_ID: Final = -3

# The operations.
SPAN: Final = 0
FIXED: Final = 1
STRING: Final = 2
BYTES: Final = 3
STRUCT: Final = 4
ARRAY: Final = 5
ARRAY_NEXT: Final = 6
TAGS: Final = 7
TAGS_NEXT: Final = 8
TAG: Final = 9
TAG_END: Final = 10
HEADER_END: Final = 11
END: Final = 12

# The flags.
COMPACT: Final = 1
NULLABLE: Final = 2
SIGNED: Final = 4
PLACE: Final = 8
"""The place of the bytes is wanted instead of their value, as of a UUID."""
TAGGED: Final = 16

VARIABLE: Final = -1
"""The SIZE of an array whose elements are read one by one."""
FOREIGN: Final = 0
"""The NEXT of a TAG that the version does not have: no field is at row 0, because a frame begins there."""

# The tables of entries: the first row of a frame, by API key and version.
REQUESTS: Final = 0
RESPONSES: Final = 1
RIVALS: Final = 2
"""For versions that only the KIP-1313 overlay has: header 2 with the request of the version before."""
TAGGED_REQUESTS: Final = 3
"""For the same versions: header 3 in its tagged layout."""
HEADERS: Final = 4
"""For versions that earlier releases had: the request header alone."""
TABLES: Final = 5
NOWHERE: Final = -1
"""The tape has no row for the API and version."""

# The places of ApiVersions, which can be read at versions that the schemas lack.
BELOW: Final = 0
"""The request header of versions below the known ones."""
ABOVE: Final = 1
"""That of versions above them."""
REFUSAL: Final = 2
"""The response of version 0, in which brokers refuse any version."""

# The elements of `counts`.
FOUND: Final = 0
REMARKS: Final = 1

# The columns of `counters`.
LEFT: Final = 0
"""Elements or tags that are not yet read."""
LAST_TAG: Final = 1
FIELD_BEGIN: Final = 2
FIELD_END: Final = 3
"""The beginning and the stated end of a tagged field."""
COUNTERS: Final = 4

FAILED: Final = -1
"""A position: the rest of the frame cannot be read."""


class Machine(NamedTuple):
    """The arrays that a tape is run with.

    `head` (HEAD) belongs to the frame that is being read. `found` and `remarks` (int64, four columns) get a
    row for each wanted value and each remark, see `DecodedFrames`. `counts` (int64) says how many rows each
    of the two has, or would have if there were room. `counters` (int64) has a row for each level of nesting.
    """

    tape: Any
    data: Any
    head: Any
    found: Any
    remarks: Any
    counts: Any
    counters: Any


class FrameSpan(NamedTuple):
    """One frame: its number in the batch, its bounds in the data, and whether its tail is missing."""

    number: int
    begin: int
    end: int
    is_cut: bool


@inlined
def entry_of(entries: Any, table: int, key: int, version: int) -> Any:
    """Look up the first row of a frame, or NOWHERE."""
    if key < 0 or version < 0 or key >= entries.shape[1] or version >= entries.shape[2]:
        return NOWHERE
    return np.int64(entries[table, key, version])


@inlined
def cell(tape: Any, row: int, column: int) -> Any:
    """Return a cell of a row. The index is unsigned: that spares numba's check for a negative one."""
    return tape[np.uint64(row + column)]


@outlined
def fail(machine: Machine, frame: FrameSpan, reason: int, path: int, position: int) -> int:
    """Record the reason and the place of a failure in the head; return FAILED."""
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
    """Clear all of a head that a tape writes."""
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
    """Undo a reading: clear the head, and drop all rows beyond these counts."""
    clear(machine.head)
    machine.counts[FOUND] = found
    machine.counts[REMARKS] = remarks
