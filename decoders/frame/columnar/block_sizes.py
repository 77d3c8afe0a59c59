"""What the messages of an Arrow IPC stream declare, read before anything is allocated.

A compressed buffer names the size that it decompresses to, and Arrow allocates that. So a record of a few
bytes could take all memory of a worker. Here the declared sizes are added up. Arrow itself checks the rest.
The layouts are those of Arrow's columnar format: each message has a flatbuffer of metadata, and a body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from decoders.frame.columnar.block import MOST_FRAMES, BlockError

MOST_MEMORY: Final = 8 * 1024 * 1024
"""The most bytes that a block may decompress to, several times what a full one needs."""
_DICTIONARIES: Final = 4
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_V5: Final = 4
"""The version of Arrow's metadata. With V4 a message may name its compression where no size is looked for."""
_MARKER: Final = b"\xff\xff\xff\xff"
_PLAIN: Final = -1
"""Declared by a buffer that is stored as it is although its message is compressed."""
_INT16, _UINT16, _INT32, _INT64 = (struct.Struct(code) for code in ("<h", "<H", "<i", "<q"))
_BUFFER: Final = struct.Struct("<qq")


class _Message(NamedTuple):
    """A message: the type of its header, the table of that, and its body."""

    type: int
    header: _Table
    body: memoryview


def check_sizes(value: memoryview) -> None:
    """Raise BlockError unless these are the messages of a block that declare no more than it may hold."""
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


def _messages(value: memoryview) -> Iterator[_Message]:
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
        message = _Table.root(value[begin : begin + size])
        if message.integer(0, _INT16) != _V5:
            raise BlockError("its messages are not of version 5 of Arrow's metadata")
        length = message.integer(3, _INT64)
        at = begin + size + length
        if length < 0 or at > len(value):
            raise BlockError("damaged: it ends inside a message")
        yield _Message(message.byte(1), message.table(2), value[begin + size : at])


def _record_batch(message: _Message) -> _Table:
    return message.header.table(1) if message.type == _DICTIONARY_BATCH else message.header


def _declared(batch: _Table, body: memoryview) -> int:
    """Add up the sizes that the buffers of a record batch decompress to."""
    total, is_compressed = 0, batch.has(3)
    for offset, length in batch.buffers(2):
        if not 0 <= offset <= offset + length <= len(body):
            raise BlockError("damaged: a buffer lies outside its message")
        declared = _INT64.unpack_from(body, offset)[0] if is_compressed and length else _PLAIN
        if declared < _PLAIN:
            raise BlockError("damaged: a buffer has a negative size")
        total += length if declared == _PLAIN else declared
    return total


class _Table:
    """A table of a flatbuffer: its fields by number, which a vtable places."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, _within(data, at)
        self._vtable = _within(data, at - _INT32.unpack_from(data, at)[0])
        (self._size,) = _UINT16.unpack_from(data, self._vtable)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
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

    def table(self, number: int) -> _Table:
        return _Table(self._data, self._target(number))

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
