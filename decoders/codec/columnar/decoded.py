"""What the columnar reader found, as Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decoders.codec.columnar import arrow, head, head_columns
from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.head_columns import HeadColumns
from decoders.codec.columnar.projection import Column, Sort
from decoders.codec.columnar.singles import Singles
from decoders.codec.failure import Oddity, Reason
from decoders.schema.header_versions import Layout

REASONS: Final = {
    head.TRUNCATED: Reason.TRUNCATED,
    head.NULL_NOT_ALLOWED: Reason.NULL_NOT_ALLOWED,
    head.INVALID_LENGTH: Reason.INVALID_LENGTH,
    head.INVALID_TAG: Reason.INVALID_TAG,
    head.INVALID_VARINT: Reason.INVALID_VARINT,
}
ODDITIES: Final = {
    head.TRAILING_BYTES: Oddity.TRAILING_BYTES,
    head.TAG_SIZE_MISMATCH: Oddity.TAG_SIZE_MISMATCH,
    head.TAG_ORDER: Oddity.TAG_ORDER,
    head.OVERLONG_VARINT: Oddity.OVERLONG_VARINT,
    head.NEGATIVE_LENGTH: Oddity.NEGATIVE_LENGTH,
    head.INVALID_UTF8: Oddity.INVALID_UTF8,
}
LAYOUTS: Final = {
    head.NO_LAYOUT: None,
    head.PLAIN_LAYOUT: Layout.PLAIN,
    head.TAGGED_LAYOUT: Layout.TAGGED,
}

_REASON_NAMES: Final = arrow.texts(map(str, REASONS.values()))
_ODDITY_NAMES: Final = arrow.texts(map(str, ODDITIES.values()))
_LAYOUT_NAMES: Final = arrow.texts(map(str, filter(None, LAYOUTS.values())))

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DecodedFrames:
    """What was read of a column of frames; all arrays are in its order.

    `head_columns` and `flags` (uint8, with the rows that `codec/columnar/head_columns.py` names) tell what
    is told of every frame. `found` and `remarks` are the rows of a `Machine`, in wire order, `contents`
    the bytes of what was found, `client_ids` those of the client IDs; `record_batch`, `column` and
    `remark_lists` make Arrow columns of them. `paths` (string) are the paths of fields by number.
    """

    frames: Frames
    head_columns: HeadColumns
    flags: npt.NDArray[np.uint8]
    found: _Integers
    remarks: _Integers
    contents: npt.NDArray[np.uint8]
    client_ids: npt.NDArray[np.uint8]
    columns: tuple[Column, ...]
    paths: pa.Array

    @cached_property
    def heads(self) -> Mapping[str, npt.NDArray[Any]]:
        """What is told of every frame as numpy arrays, by name: plain numbers to compare and to hash.

        Those of `HeadColumns`, and as bool `known`, `has_body`, `has_correlation_id` and `has_client_id`.
        """
        flags = self.flags.view(np.bool_)
        told = {
            "known": flags[head_columns.KNOWN],
            "has_body": flags[head_columns.HAS_BODY],
            "has_correlation_id": flags[head_columns.HAS_CORRELATION_ID],
            "has_client_id": flags[head_columns.HAS_CLIENT_ID],
        }
        return told | self.head_columns._asdict()

    def record_batch(self) -> pa.RecordBatch:
        """Give everything: a row a frame, what every frame has first, then the wanted columns.

        `known`, `has_body` (bool); `api_key`, `api_version`, `body_version` (int16), `header_version`
        (int8), `correlation_id` (int32); `client_id` (large_binary), `client_instance_id` (16 bytes);
        `layout`, `failure_reason`, `failure_path` (dictionaries of strings), `failure_offset` (int32);
        `remarks`; each as `Request`, `Response`, `DecodeFailure` and `Remark` have it.
        What a frame does not have is null. `body_version` is told of responses alone.
        """
        named = {**self._head_columns(), "remarks": self.remark_lists()}
        named |= {column.name: self._column(at) for at, column in enumerate(self.columns)}
        return pa.RecordBatch.from_arrays(list(named.values()), list(named))

    def column(self, name: str) -> pa.Array:
        """Make a wanted column.

        Integers are int64, uuids 16 bytes, strings, bytes and records large_binary, as they stand in
        the frame. A value is null where the frame has none, or was not read whole. A list holds all
        values of a frame in wire order, without its nulls; it is null where the frame is of another
        message or was not read whole. A tagged field is given as it stands, default or not; where a
        tag is repeated, a value is the last one.
        """
        return self._column(next(at for at, column in enumerate(self.columns) if column.name == name))

    def remark_lists(self) -> pa.Array:
        """Give the remarks of each frame: a list of {oddity, path, offset}, in the scalar reader's order."""
        oddities, paths, offsets = np.ascontiguousarray(self.remarks[:, 1:].T, np.int32)
        columns = [
            arrow.names(oddities, _ODDITY_NAMES, None),
            arrow.names(paths, self.paths, None),
            arrow.numbers(pa.int32(), offsets, None),
        ]
        structs = pa.StructArray.from_arrays(columns, names=["oddity", "path", "offset"])
        return arrow.lists(structs, self.remarks[:, 0], len(self.frames), None)

    @cached_property
    def _bits(self) -> npt.NDArray[np.uint8]:
        return arrow.bits(self.flags)

    @cached_property
    def _singles(self) -> Singles:
        return Singles(self.columns, self.found, self.contents, self.frames.data, len(self.frames))

    def _head_columns(self) -> dict[str, pa.Array]:
        told, bits, count, data = self.head_columns, self._bits, len(self.frames), self.frames.data
        failed, ids = bits[head_columns.HAS_FAILURE], bits[head_columns.HAS_INSTANCE_ID]
        client_ids = bits[head_columns.HAS_CLIENT_ID]
        return {
            "known": arrow.booleans(bits[head_columns.KNOWN], count, None),
            "has_body": arrow.booleans(bits[head_columns.HAS_BODY], count, None),
            "api_key": arrow.numbers(pa.int16(), told.api_key, None),
            "api_version": arrow.numbers(pa.int16(), told.api_version, None),
            "header_version": arrow.numbers(
                pa.int8(), told.header_version, bits[head_columns.HAS_HEADER_VERSION]
            ),
            "body_version": arrow.numbers(pa.int16(), told.body_version, bits[head_columns.HAS_BODY_VERSION]),
            "correlation_id": arrow.numbers(
                pa.int32(), told.correlation_id, bits[head_columns.HAS_CORRELATION_ID]
            ),
            "client_id": arrow.contents(told.client_id_offsets, self.client_ids, client_ids),
            "client_instance_id": arrow.uuids(data, told.client_instance_id_begin, ids),
            "layout": arrow.names(told.layout, _LAYOUT_NAMES, bits[head_columns.HAS_LAYOUT]),
            "failure_reason": arrow.names(told.failure_reason, _REASON_NAMES, failed),
            "failure_path": arrow.names(told.failure_path, self.paths, failed),
            "failure_offset": arrow.numbers(pa.int32(), told.failure_offset, failed),
        }

    def _column(self, at: int) -> pa.Array:
        column = self.columns[at]
        if column.is_list:
            return self._lists(at, column)
        return self._singles.array(at)

    def _lists(self, at: int, column: Column) -> pa.Array:
        rows = self.found[self.found[:, 1] == at]
        values, lengths = np.ascontiguousarray(rows[:, 2]), np.ascontiguousarray(rows[:, 3])
        items = self._items(column.sort, values, lengths)
        return arrow.lists(items, rows[:, 0], len(self.frames), self._holds(column))

    def _items(self, sort: Sort, values: _Integers, lengths: _Integers) -> pa.Array:
        if sort is Sort.BYTES:
            return arrow.places(self.frames.data, values, lengths, None)
        if sort is Sort.UUID:
            return arrow.uuids(self.frames.data, values, None)
        return arrow.values(sort, values, None)

    def _holds(self, column: Column) -> npt.NDArray[np.bool_]:
        """Tell which frames are messages that a column takes a field from, and were read whole."""
        keys, is_request = self.head_columns.api_key, self.frames.is_request
        of_request = is_request & np.isin(keys, list(column.requests))
        of_response = ~is_request & np.isin(keys, list(column.responses))
        holds: npt.NDArray[np.bool_] = (of_request | of_response) & self.heads["has_body"]
        return holds
