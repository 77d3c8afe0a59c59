"""The heads of all frames, an array a field, as Arrow takes them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
from numba import from_dtype, types

from decoders.codec.columnar.head import HEAD, NO_LAYOUT, TAGGED_LAYOUT
from decoders.codec.columnar.memory import absent, empty, zeros
from decoders.compilation import inlined

# The rows of `flags`. Behind them stands a row for each wanted column of single values.
KNOWN: Final = 0
HAS_BODY: Final = 1
HAS_CORRELATION_ID: Final = 2
HAS_HEADER_VERSION: Final = 3
HAS_BODY_VERSION: Final = 4
HAS_CLIENT_ID: Final = 5
HAS_INSTANCE_ID: Final = 6
HAS_LAYOUT: Final = 7
HAS_FAILURE: Final = 8
HEAD_FLAGS: Final = 9

_RARE: Final = {"client_instance_id_begin", "layout", "failure_reason", "failure_path", "failure_offset"}
"""What most frames do not have; it is written of the others alone."""


class HeadColumns(NamedTuple):
    """An array for each field of `HEAD` that is told, of its type, with an element a frame.

    `client_id_offsets` (int64) says where the client ID of each frame begins in the client IDs, and,
    in one element more, where the last one ends.
    """

    api_key: Any
    api_version: Any
    body_version: Any
    header_version: Any
    correlation_id: Any
    client_instance_id_begin: Any
    layout: Any
    failure_reason: Any
    failure_path: Any
    failure_offset: Any
    client_id_begin: Any
    client_id_length: Any
    client_id_offsets: Any

    @classmethod
    def room_for(cls, count: int) -> Self:
        """Make columns for so many frames."""
        heads = [
            absent(count, HEAD[name]) if name in _RARE else empty(count, HEAD[name])
            for name in cls._fields[:-1]
        ]
        return cls._make([*heads, zeros(count + 1, np.int64)])


HEAD_COLUMNS: Final = types.NamedTuple(
    [*(from_dtype(HEAD[name])[::1] for name in HeadColumns._fields[:-1]), types.int64[::1]], HeadColumns
)
"""Their type as numba has it."""


@inlined
def _write_layout(head: Any, columns: HeadColumns, flags: Any, at: Any) -> None:
    columns.layout[at] = head.layout
    columns.client_instance_id_begin[at] = head.client_instance_id_begin
    flags[HAS_LAYOUT, at] = head.layout != NO_LAYOUT
    # In the tagged layout a zero ID is not written at all.
    flags[HAS_INSTANCE_ID, at] = head.client_instance_id_begin >= 0 or head.layout == TAGGED_LAYOUT


@inlined
def _write_failure(head: Any, columns: HeadColumns, flags: Any, at: Any) -> None:
    columns.failure_reason[at] = head.failure_reason
    columns.failure_path[at] = head.failure_path
    columns.failure_offset[at] = head.failure_offset
    flags[HAS_FAILURE, at] = True


@inlined
def write_head(head: Any, columns: HeadColumns, flags: Any, frame: int, client_ids: Any) -> None:
    """Write the head of a frame into its columns, and what of it is there into the flags.

    `client_ids` says how many bytes the client IDs up to this one take.
    """
    at = np.uint64(frame)
    columns.api_key[at] = head.api_key
    columns.api_version[at] = head.api_version
    columns.body_version[at] = head.body_version
    columns.header_version[at] = head.header_version
    columns.correlation_id[at] = head.correlation_id
    columns.client_id_begin[at] = head.client_id_begin
    columns.client_id_length[at] = head.client_id_length
    columns.client_id_offsets[at + np.uint64(1)] = client_ids
    flags[KNOWN, at] = head.known
    flags[HAS_BODY, at] = head.has_body
    flags[HAS_CORRELATION_ID, at] = head.has_correlation_id
    flags[HAS_HEADER_VERSION, at] = head.header_version >= 0
    flags[HAS_BODY_VERSION, at] = head.body_version >= 0
    flags[HAS_CLIENT_ID, at] = head.client_id_length >= 0
    if head.layout != NO_LAYOUT or head.client_instance_id_begin >= 0:
        _write_layout(head, columns, flags, at)
    if head.failure_reason >= 0:
        _write_failure(head, columns, flags, at)
