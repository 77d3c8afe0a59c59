"""The block: one record of the frames topic, which holds the frames of many connections as columns.

A block is an Arrow IPC stream with one record batch, whose buffers Arrow compresses with lz4, so pyarrow,
polars and DuckDB read it. Each row is a frame or an event of a connection, in order. Columns have the names
and meanings of the fields of `Record`, with two exceptions. Numbers that rise from row to row are stored as
steps from the row before, in which lz4 finds repetitions. Values that many rows share are stored once, in
dictionaries: a connection's ID with its client in one, servers, clusters and feeders in others, because
offsets of strings beside each connection would take more bytes than the strings. The schema's metadata names
the version of this format.

Anybody who may write to the topic may write bytes that are no block, so two checks surround Arrow's own when
a block is read.

- Before: `_check_sizes` adds up the sizes that the messages of a block declare. A compressed buffer names the
  size that it decompresses to, and Arrow allocates that, so a record of a few bytes could take all memory of
  a worker. The layouts are those of Arrow's columnar format: each message has a flatbuffer of metadata, and a
  body.
- After: numbers must be those that a feeder writes, and sums of them must fit 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.record import NAME_BYTES, NO_RECORD, NO_TIME, Closing, Direction, Kind, Pairing
from decoders.wire.columnar.frames import OF_FRAMES

FORMAT_VERSION: Final = 2
VERSION_HEADER: Final = "kipwatch-block"
"""Header of the Kafka record, and key of the schema's metadata: the version in decimal digits."""
SCHEMAS_KEY: Final = "kipwatch-schemas"
"""Key of the schema's metadata: the digest of the Kafka schemas by which the feeder read the frames."""
FRAMES_HEADER: Final = "kipwatch-frames"
"""Header of the Kafka record: the number of rows in decimal digits."""
MOST_FRAMES: Final = 4_096
"""The most rows of a block."""
MOST_BYTES: Final = 960_000
"""The most bytes that a block of several rows takes before it is compressed.

Kafka's clients send messages of at most 1,000,000 bytes unless they are told otherwise. Arrow's metadata
takes some 5,000 of them.
"""
ID_BYTES: Final = 16
"""The length of a connection's ID."""

_SPEAKER: Final = pa.struct(
    [pa.field("id", pa.binary(ID_BYTES), nullable=False), pa.field("client", pa.utf8(), nullable=False)]
)
_CODE: Final = pa.int16()
_NAME: Final = pa.dictionary(_CODE, pa.utf8())
CAPTURE_TIME: Final = pa.timestamp("ns", "UTC")
COLUMNS: Final = {
    "connection": pa.dictionary(_CODE, _SPEAKER),
    "server": _NAME,
    "cluster": _NAME,
    "feeder": _NAME,
    "run": pa.uint64(),
    "sequence_step": pa.int64(),
    "captured_at": CAPTURE_TIME,
    "kind": pa.uint8(),
    "direction": pa.uint8(),
    "pairing": pa.uint8(),
    "closing": pa.uint8(),
    "flags": pa.uint8(),
    "paired_distance": pa.int64(),
    "paired_api_key": pa.int16(),
    "paired_api_version": pa.int16(),
    "position_step": pa.int64(),
    "true_length": pa.int64(),
    "frame": pa.binary(),
}
"""The columns of a block by name. Kinds and the like are numbers of the enumerations in `record.py`.

`sequence_step` and `position_step` are the differences of `sequence` and `position` to the row before, in the
first row their values. `paired_distance` is `sequence - paired_sequence`, 0 if there is no paired record.
"""
ROW_BYTES: Final = sum(type_.bit_width // 8 for type_ in COLUMNS.values() if type_ != pa.binary()) + 4
"""What a row takes besides its frame: its numbers and codes, and the offset of its frame."""
SPEAKER_BYTES: Final = ID_BYTES + len("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535") + 4
"""What a connection takes at most in a block: its ID, its client, and the offset of that."""
SCHEMA: Final = pa.schema(
    [pa.field(name, type_, nullable=False) for name, type_ in COLUMNS.items()],
    metadata={VERSION_HEADER: str(FORMAT_VERSION)},
)


class BlockError(ValueError):
    """The bytes are no block of this format. The message is one line."""


def headers_of(rows: int) -> list[tuple[str, bytes]]:
    """Return the headers of the Kafka record of a block."""
    return [(VERSION_HEADER, b"%d" % FORMAT_VERSION), (FRAMES_HEADER, b"%d" % rows)]


SHARED: Final = ("server", "cluster", "feeder")
"""The columns that are dictionaries of names."""
_DERIVED: Final = ("sequence", "paired_sequence", "position")
"""Fields of a record that a block stores as a step or a distance."""
_OPTIONS: Final = pa.ipc.IpcReadOptions(use_threads=False)
_NUMBERS: Final = {
    **dict.fromkeys(("sequence", "paired_sequence", "position"), 1 << 62),
    "captured_at": NO_TIME,
    "true_length": 1 << 40,
}
"""Limits of the numbers of a block. They are far above what a feeder writes, and sums of two fit 64 bits."""
_ENUMERATIONS: Final = {"kind": Kind, "direction": Direction, "pairing": Pairing, "closing": Closing}
MOST_MEMORY: Final = 8 * 1024 * 1024
"""The most bytes that a block may decompress to, several times what a full one needs."""
_DICTIONARIES: Final = 4
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_V5: Final = 4
"""The version of Arrow's metadata. A V4 message may state its compression where `_declared` does not look."""
_MARKER: Final = b"\xff\xff\xff\xff"
_PLAIN: Final = -1
"""The declared size of a buffer that is stored uncompressed in a compressed message."""
_INT16, _UINT16, _INT32, _INT64 = (struct.Struct(code) for code in ("<h", "<H", "<i", "<q"))
_BUFFER: Final = struct.Struct("<qq")


class BlockColumns(NamedTuple):
    """The columns of a block by the names of a record's fields; those of dictionaries hold codes.

    `ids` and `clients` are those of the connections by code, `names` the texts of the other dictionaries. The
    frame of row i is `data[offsets[i] : offsets[i + 1]]`. `schemas` is the digest of the Kafka schemas by
    which the feeder read the frames, "" if it is not given.
    """

    values: dict[str, NDArray[Any]]
    ids: Sequence[bytes]
    clients: Sequence[str]
    names: dict[str, Sequence[str]]
    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]
    schemas: str


def read_columns(value: pa.Buffer | bytes) -> BlockColumns:
    """Read a block. Raises BlockError if it is damaged, of another format, or declares too much."""
    try:
        _check_sizes(memoryview(value).cast("B"))
        with pa.ipc.open_stream(pa.py_buffer(value), options=_OPTIONS) as stream:
            _check_schema(stream.schema)
            batch = stream.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise BlockError(f"damaged: {str(error).splitlines()[0]}") from error
    if any(column.null_count for column in batch.columns):
        raise BlockError("damaged: a value is missing")
    return _columns(batch)


def _check_schema(schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(VERSION_HEADER.encode())
    if version is None:
        raise BlockError(f"no block of kipwatch; this kipwatch reads version {FORMAT_VERSION}")
    if version != b"%d" % FORMAT_VERSION:
        other = version.decode(errors="replace")
        raise BlockError(f"a block of version {other!r}; this kipwatch reads version {FORMAT_VERSION}")
    if not schema.equals(SCHEMA):
        raise BlockError("a block with other columns")


def _columns(batch: pa.RecordBatch) -> BlockColumns:
    values: dict[str, NDArray[Any]] = {}
    names: dict[str, Sequence[str]] = {}
    for name in ("run", *(name for name in OF_FRAMES if name not in _DERIVED), "closing"):
        column = batch.column(name)
        values[name] = (column.cast(pa.int64()) if name == "captured_at" else column).to_numpy()
    for name in ("sequence", "position"):
        values[name] = np.cumsum(batch.column(f"{name}_step").to_numpy())
    distances = batch.column("paired_distance").to_numpy()
    values["paired_sequence"] = np.where(distances == 0, NO_RECORD, values["sequence"] - distances)
    for name, enumeration in _ENUMERATIONS.items():
        if values[name].max(initial=0) > max(enumeration) or (name == "kind" and not values[name].all()):
            raise BlockError(f"an unknown {name}")
    for name, limit in _NUMBERS.items():
        if values[name].min(initial=0) < 0 or values[name].max(initial=0) >= limit:
            raise BlockError(f"a {name} that no feeder writes")
    for name in ("connection", *SHARED):
        column = batch.column(name)
        if len(column.dictionary) > MOST_FRAMES:
            raise BlockError(f"a dictionary of {len(column.dictionary)} values for {name}")
        values[name] = column.indices.to_numpy()
        if name != "connection":
            names[name] = _texts(column.dictionary)
    if any(len(name.encode()) > NAME_BYTES for name in (*names["cluster"], *names["feeder"])):
        raise BlockError("a name that is too long")
    speakers = batch.column("connection").dictionary
    packed = _fixed(speakers.field("id"))
    ids = [packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)]
    data, offsets = _contents(batch.column("frame"))
    schemas = (batch.schema.metadata or {}).get(SCHEMAS_KEY.encode(), b"").decode(errors="replace")
    return BlockColumns(values, ids, _texts(speakers.field("client")), names, data, offsets, schemas)


def _texts(array: pa.Array) -> Sequence[str]:
    # Through numpy: Arrow's to_pylist takes several times as long.
    if array.null_count:
        raise BlockError("damaged: a name is missing")
    texts: list[str] = array.to_numpy(zero_copy_only=False).tolist()
    return texts


def _fixed(ids: pa.Array) -> bytes:
    _, data = ids.buffers()
    begin, end = ids.offset * ID_BYTES, (ids.offset + len(ids)) * ID_BYTES
    packed: bytes = data.to_pybytes()[begin:end] if data is not None else b""
    if len(packed) < end - begin:
        raise BlockError("damaged: an ID is missing")
    return packed


def _contents(frames: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    _, offsets, data = frames.buffers()
    if not len(frames) or offsets is None:
        return np.empty(0, np.uint8), np.zeros(1, np.int32)
    # The buffer of another writer may be longer, by any number of bytes.
    places = np.frombuffer(offsets, np.int32, frames.offset + len(frames) + 1)[frames.offset :]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), places


class _ArrowMessage(NamedTuple):
    """A message: the type of its header, the header's table, and the body."""

    type: int
    header: _FlatTable
    body: memoryview


def _check_sizes(value: memoryview) -> None:
    """Raise BlockError unless these are the messages of one block, and declare no more than it may hold."""
    try:
        messages = list(_messages(value))
        types = [message.type for message in messages]
        if types[:1] + types[-1:] != [_SCHEMA, _RECORD_BATCH] or set(types[1:-1]) - {_DICTIONARY_BATCH}:
            raise BlockError("not the messages of one record batch")
        if len(types) > _DICTIONARIES + 2:
            raise BlockError("too many dictionaries")
        batches = [_record_batch(message) for message in messages[1:]]
        declared = sum(
            _declared(batch, message.body) for batch, message in zip(batches, messages[1:], strict=True)
        )
        rows = batches[-1].integer(0, _INT64)
    except (struct.error, IndexError) as error:
        raise BlockError(f"damaged: {error}") from error
    if not 0 <= rows <= MOST_FRAMES:
        raise BlockError(f"it declares {rows} rows, at most {MOST_FRAMES} are allowed")
    if declared > MOST_MEMORY:
        raise BlockError(f"it declares {declared} bytes of columns, at most {MOST_MEMORY} are allowed")


def _messages(value: memoryview) -> Iterator[_ArrowMessage]:
    at = 0
    while at < len(value):
        if bytes(value[at : at + 4]) != _MARKER:
            raise BlockError("no Arrow IPC stream")
        (size,) = _INT32.unpack_from(value, at + 4)
        begin = at + 8
        if size == 0:
            return
        if not 0 < size <= len(value) - begin:
            raise BlockError("damaged: it ends inside a message")
        message = _FlatTable.root(value[begin : begin + size])
        if message.integer(0, _INT16) != _V5:
            raise BlockError("its messages are not of version 5 of Arrow's metadata")
        length = message.integer(3, _INT64)
        at = begin + size + length
        if length < 0 or at > len(value):
            raise BlockError("damaged: it ends inside a message")
        yield _ArrowMessage(message.byte(1), message.table(2), value[begin + size : at])


def _record_batch(message: _ArrowMessage) -> _FlatTable:
    return message.header.table(1) if message.type == _DICTIONARY_BATCH else message.header


def _declared(batch: _FlatTable, body: memoryview) -> int:
    """Add up the decompressed sizes of the buffers of a record batch."""
    total, is_compressed = 0, batch.has(3)
    for offset, length in batch.buffers(2):
        if not 0 <= offset <= offset + length <= len(body):
            raise BlockError("damaged: a buffer lies outside its message")
        declared = _INT64.unpack_from(body, offset)[0] if is_compressed and length else _PLAIN
        if declared < _PLAIN:
            raise BlockError("damaged: a buffer has a negative size")
        total += length if declared == _PLAIN else declared
    return total


class _FlatTable:
    """A table of a flatbuffer. Fields have numbers, by which a vtable locates them."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, _within(data, at)
        self._vtable = _within(data, at - _INT32.unpack_from(data, at)[0])
        (self._size,) = _UINT16.unpack_from(data, self._vtable)

    @classmethod
    def root(cls, data: memoryview) -> _FlatTable:
        return cls(data, _INT32.unpack_from(data, 0)[0])

    def has(self, number: int) -> bool:
        return self._place(number) > 0

    def integer(self, number: int, layout: struct.Struct) -> int:
        """Return an integer, 0 if the field is absent."""
        place = self._place(number)
        return int(layout.unpack_from(self._data, place)[0]) if place else 0

    def byte(self, number: int) -> int:
        place = self._place(number)
        return self._data[place] if place else 0

    def table(self, number: int) -> _FlatTable:
        return _FlatTable(self._data, self._target(number))

    def buffers(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets and lengths of a vector of buffers."""
        begin = self._target(number)
        (count,) = _INT32.unpack_from(self._data, begin)
        end = begin + _INT32.size + count * _BUFFER.size
        yield from _BUFFER.iter_unpack(self._data[begin + _INT32.size : _within(self._data, end - 1) + 1])

    def _place(self, number: int) -> int:
        slot = 4 + 2 * number
        offset = _UINT16.unpack_from(self._data, self._vtable + slot)[0] if slot + 2 <= self._size else 0
        return _within(self._data, self._at + offset) if offset else 0

    def _target(self, number: int) -> int:
        place = self._place(number)
        if not place:
            raise BlockError("damaged: a field is missing")
        return _within(self._data, place + _INT32.unpack_from(self._data, place)[0])


def _within(data: memoryview, at: int) -> int:
    if not 0 <= at < len(data):
        raise BlockError("damaged: a field lies outside its message")
    return at
