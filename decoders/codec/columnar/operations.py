"""The instructions of a tape: what the columns of its rows mean, and which operations there are.

A tape is made of rows that stand one behind the other, one row an instruction; `codec/columnar/tape.py`
writes it and `codec/columnar/walk.py` runs it. A row is known by the place of its first cell. Nesting
needs no stack that grows: each array and each tag section has a level of its own, known when the tape
is written, to keep its counters in.
"""

from __future__ import annotations

from typing import Final

# The columns of a tape.
OPERATION: Final = 0
PATH: Final = 1
"""The number of the field's path."""
COLUMN: Final = 2
"""Which column wants the field: a number, or one of the three below."""
SIZE: Final = 3
"""In bytes, of a field or an element. Of a TAGS_NEXT the number of its TAG rows, of a TAG the tag, of
a HEADER_END the header version, whose layout is in FLAGS."""
NEXT: Final = 4
"""Where the row begins to go on at when the rows between are to be passed over."""
FLAGS: Final = 5
LEVEL: Final = 6
WIDTH: Final = 8

UNWANTED: Final = -1
CLIENT_ID: Final = -2
INSTANCE_ID: Final = -3

# The operations.
SPAN: Final = 0
"""Several fields of fixed size at once; their own rows follow, to find the one that is cut short."""
FIXED: Final = 1
STRING: Final = 2
BYTES: Final = 3
STRUCT: Final = 4
"""The marker of a struct that may be null."""
ARRAY: Final = 5
ARRAY_NEXT: Final = 6
TAGS: Final = 7
TAGS_NEXT: Final = 8
TAG: Final = 9
"""Where a tag's field is read (NEXT), FOREIGN if the version does not have it. Never run."""
TAG_END: Final = 10
HEADER_END: Final = 11
END: Final = 12

# The flags.
COMPACT: Final = 1
NULLABLE: Final = 2
SIGNED: Final = 4
PLACE: Final = 8
"""The value is wanted as its place in the bytes, as that of a uuid."""
TAGGED: Final = 16

VARIABLE: Final = -1
"""The SIZE of an array whose elements must be read one by one."""
FOREIGN: Final = 0
"""No field is read there, as a frame begins there."""
