"""Topic records → a batch of frames: envelopes unpacked in compiled code, equal to `unpack` of each."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.frame.columnar.layout import ENVELOPE_TYPE, offset_of
from decoders.frame.record import (
    ENVELOPE_VERSION,
    Closing,
    Direction,
    Kind,
    Pairing,
    Record,
    RecordError,
    unpack,
)
from decoders.wire.columnar.frames import FrameBatch, FrameColumns

_VERSION: Final = offset_of("version")
_KIND: Final = offset_of("kind")
_DIRECTION: Final = offset_of("direction")
_PAIRING: Final = offset_of("pairing")
_CLOSING: Final = offset_of("closing")
_FLAGS: Final = offset_of("flags")
_RUN: Final = offset_of("run")
_SEQUENCE: Final = offset_of("sequence")
_CAPTURED_AT: Final = offset_of("captured_at")
_PAIRED_SEQUENCE: Final = offset_of("paired_sequence")
_PAIRED_API_KEY: Final = offset_of("paired_api_key")
_PAIRED_API_VERSION: Final = offset_of("paired_api_version")
_POSITION: Final = offset_of("position")
_TRUE_LENGTH: Final = offset_of("true_length")
_ENDPOINTS: Final = offset_of("client_address")
"""Addresses of client and server, then the names of cluster and feeder."""
_CAPTURED_LENGTH: Final = offset_of("captured_length")
_SIZE: Final = ENVELOPE_TYPE.itemsize

MOST_OPENINGS: Final = 100_000
"""How many identities of connections are cached."""
_REQUEST: Final = int(Kind.REQUEST)
_RESPONSE: Final = int(Kind.RESPONSE)
_LAST_DIRECTION: Final = int(max(Direction))
_LAST_PAIRING: Final = int(max(Pairing))
_NO_CLOSING: Final = int(Closing.NONE)

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Topic records as a batch.

    `rows` (int64) gives the row of each record in the topic's batch: those of the frames, then those of the
    events. `unreadable` counts the rows that are not records. Every record that is not an ordinary request or
    response is an event.
    """

    batch: FrameBatch
    rows: _Integers
    unreadable: int


def unpack_columns(keys: pa.Array, values: pa.Array) -> Unpacked:
    """Unpack topic records from binary columns of their keys and values."""
    return _Unpacking(keys, values).unpacked()


class _Unpacking:
    def __init__(self, keys: pa.Array, values: pa.Array) -> None:
        self._keys = keys.fill_null(b"").dictionary_encode()
        self._connections = self._keys.indices.to_numpy()
        self._data, self._begins = _contents(values.fill_null(b"").cast(pa.large_binary()))

    def unpacked(self) -> Unpacked:
        count = len(self._begins) - 1
        columns, is_frame = FrameColumns.empty(count), np.empty(count, np.bool_)
        first = np.full(len(self._keys.dictionary), -1, np.int64)
        _read(self._data, self._begins, self._connections, first, is_frame, columns)
        openings = self._number_connections(first, is_frame, columns)
        rows = np.flatnonzero(is_frame)
        events = [
            (row, record) for row in np.flatnonzero(~is_frame).tolist() if (record := self._record(row))
        ]
        frames = columns if len(rows) == count else FrameColumns._make(column[rows] for column in columns)
        batch = FrameBatch(self._data, frames, [record for _, record in events], openings)
        event_rows = np.array([row for row, _ in events], np.int64)
        return Unpacked(batch, np.concatenate((rows, event_rows)), count - len(rows) - len(events))

    def _number_connections(
        self, first: _Integers, is_frame: NDArray[np.bool_], columns: FrameColumns
    ) -> list[Record]:
        """Return a record of each connection. The frames of one whose names cannot be read are left out."""
        named = np.flatnonzero(first >= 0)
        keys, envelopes = self._keys.dictionary.to_pylist(), self._identities(first[named])
        records = {
            number: _opening(keys[number], envelopes[at * _SIZE : (at + 1) * _SIZE])
            for at, number in enumerate(named.tolist())
        }
        openings = {number: record for number, record in records.items() if record}
        numbers = np.full(len(first), -1, np.int32)
        numbers[list(openings)] = np.arange(len(openings))
        columns.connections[:] = numbers[self._connections]
        is_frame &= columns.connections >= 0
        return list(openings.values())

    def _identities(self, rows: _Integers) -> bytes:
        """Return envelopes of empty requests with nothing but the identities of the rows' connections."""
        envelopes: NDArray[np.uint8] = self._data[self._begins[rows][:, np.newaxis] + np.arange(_SIZE)]
        for begin, end in ((_KIND, _RUN), (_SEQUENCE, _ENDPOINTS), (_CAPTURED_LENGTH, _SIZE)):
            envelopes[:, begin:end] = 0
        envelopes[:, _KIND] = _REQUEST
        return envelopes.tobytes()

    def _record(self, row: int) -> Record | None:
        value = self._data[self._begins[row] : self._begins[row + 1]].tobytes()
        return _read_record(self._keys[row].as_py(), value)


@functools.lru_cache(maxsize=MOST_OPENINGS)
def _opening(connection: bytes, envelope: bytes) -> Record | None:
    """Unpack an envelope of a connection's identity, which is the same in every batch."""
    return _read_record(connection, envelope)


def _read_record(connection: bytes, value: bytes) -> Record | None:
    try:
        return unpack(connection, value)
    except RecordError:
        return None


def _contents(values: pa.Array) -> tuple[NDArray[np.uint8], _Integers]:
    """Return the bytes of large_binary values, and the offset of each (int64), with the end as the last."""
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return np.empty(0, np.uint8), np.zeros(len(values) + 1, np.int64)
    begins = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, np.uint8), begins


@inlined
def _number(data: Any, at: Any, size: int) -> Any:
    value = np.uint64(0)
    for offset in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at + offset])
    return value


@inlined
def _is_frame(data: Any, begin: Any, size: Any) -> Any:
    """Return whether this is an ordinary request or response, as far as all but its names show."""
    if size < _SIZE or data[begin + _VERSION] != ENVELOPE_VERSION:
        return False
    kind = data[begin + _KIND]
    if kind not in (_REQUEST, _RESPONSE) or data[begin + _CLOSING] != _NO_CLOSING:
        return False
    if data[begin + _DIRECTION] > _LAST_DIRECTION or data[begin + _PAIRING] > _LAST_PAIRING:
        return False
    return _number(data, begin + _CAPTURED_LENGTH, 4) == size - _SIZE


@inlined
def _has_identity(data: Any, begin: Any, other: Any) -> Any:
    """Return whether two records have the same run, endpoints, cluster and feeder."""
    equal = True
    for at in range(_RUN, _SEQUENCE):
        equal &= data[begin + at] == data[other + at]
    for at in range(_ENDPOINTS, _CAPTURED_LENGTH):
        equal &= data[begin + at] == data[other + at]
    return equal


@compiled(None)
def _read(  # noqa: PLR0917 - compiled functions are called by position
    data: Any, begins: Any, connections: Any, first: Any, is_frame: Any, columns: Any
) -> None:
    """Read the rows that are ordinary frames and have the identity of their connection's first frame.

    `first` is the row of that first frame, -1 if there is none.
    """
    for row in range(len(begins) - 1):
        begin, connection = begins[row], connections[row]
        size = begins[row + 1] - begin
        is_frame[row] = _is_frame(data, begin, size)
        if not is_frame[row]:
            continue
        if first[connection] < 0:
            first[connection] = row
        elif not _has_identity(data, begin, begins[first[connection]]):
            is_frame[row] = False
            continue
        columns.kinds[row] = data[begin + _KIND]
        columns.directions[row] = data[begin + _DIRECTION]
        columns.pairings[row] = data[begin + _PAIRING]
        columns.flags[row] = data[begin + _FLAGS]
        columns.paired_api_keys[row] = np.int16(_number(data, begin + _PAIRED_API_KEY, 2))
        columns.paired_api_versions[row] = np.int16(_number(data, begin + _PAIRED_API_VERSION, 2))
        columns.sequences[row] = np.int64(_number(data, begin + _SEQUENCE, 8))
        columns.paired_sequences[row] = np.int64(_number(data, begin + _PAIRED_SEQUENCE, 8))
        columns.captured_at[row] = np.int64(_number(data, begin + _CAPTURED_AT, 8))
        columns.positions[row] = np.int64(_number(data, begin + _POSITION, 8))
        columns.true_lengths[row] = np.int64(_number(data, begin + _TRUE_LENGTH, 8))
        columns.starts[row] = begin + _SIZE
        columns.lengths[row] = size - _SIZE
