"""The format of a tape: rows, operations, flags, and the tables of where frames begin on it.

A tape is an array of int32 that holds rows of WIDTH cells, one row for each instruction. A row is named by
the index of its first cell. `codec/columnar/tape.py` writes tapes, `codec/columnar/walk.py` runs them.
Nesting needs no stack that grows: each array and each tag section has a level, known when the tape is
written, at which it keeps its counters.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from decoders.compilation import inlined

# The cells of a row.
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
"""Skips several fields of fixed size. Their own rows follow, to find the one that is truncated."""
FIXED: Final = 1
STRING: Final = 2
BYTES: Final = 3
STRUCT: Final = 4
"""The marker of a nullable struct."""
ARRAY: Final = 5
ARRAY_NEXT: Final = 6
TAGS: Final = 7
TAGS_NEXT: Final = 8
TAG: Final = 9
"""Where a tag's field is read (NEXT), FOREIGN if the version does not have the tag. Never run."""
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
"""A NEXT at which no field is read, because a frame begins there."""

# The tables of entries: the row at which a frame begins, by API key and version.
REQUESTS: Final = 0
RESPONSES: Final = 1
RIVALS: Final = 2
"""For versions that only the KIP-1313 overlay has: header 2 with the request of the version before."""
TAGGED_REQUESTS: Final = 3
"""For the same versions: header 3 in its tagged layout."""
TABLES: Final = 4
NOWHERE: Final = -1
"""The tape has no row for the API and version."""


@inlined
def entry_of(entries: Any, table: int, key: int, version: int) -> Any:
    """Look up the row at which a frame begins, or NOWHERE."""
    if key < 0 or version < 0 or key >= entries.shape[1] or version >= entries.shape[2]:
        return NOWHERE
    return np.int64(entries[table, key, version])
