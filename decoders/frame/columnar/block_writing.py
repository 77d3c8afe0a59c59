"""Batches of frames → blocks, without a `Record` for each frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import (
    COLUMNS,
    ID_BYTES,
    MOST_BYTES,
    MOST_FRAMES,
    OF_FRAMES,
    SCHEMA,
)
from decoders.frame.columnar.pieces import gathered
from decoders.frame.record import Closing, Record
from decoders.wire.columnar.frames import FrameBatch

_Integers = NDArray[np.int64]
# Level 1 of zstd makes half of what lz4 makes.
OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1), use_threads=False)
"""How blocks are compressed."""
_SHARED: Final = ("server", "cluster", "feeder", "run")
"""What many connections share."""
_SHARED_OF: Final = attrgetter(*_SHARED)
_FILLED: Final = 0.9
"""How full blocks are on average when they are written, so that few partitions have just more than one."""


class Block(NamedTuple):
    """The value of a topic record, its partition, and the number of its rows."""

    partition: int
    rows: int
    value: bytes


def blocks_of(batch: FrameBatch, partitions: int) -> Iterator[Block]:
    """Write a batch as blocks, within the limits of a block; connections are spread over the partitions."""
    order, lengths = batch.order(), _lengths(batch)
    placed = _partitions(batch, partitions)[order]
    for partition in np.unique(placed).tolist():
        for numbers in _cut(order[placed == partition], lengths):
            yield Block(partition, len(numbers), write_block(batch, numbers))


def is_enough(rows: int, size: int, partitions: int) -> bool:
    """Whether this many records with `size` bytes of frames fill a block for each partition."""
    return rows >= _FILLED * MOST_FRAMES * partitions or size >= _FILLED * MOST_BYTES * partitions


def partition_of(connection: bytes, partitions: int) -> int:
    """Return the partition of a connection."""
    return int.from_bytes(connection[:4]) % partitions


def write_block(batch: FrameBatch, numbers: _Integers) -> bytes:
    """Write records of a batch as one block.

    `numbers` (int64) numbers them in their order: the frames of the batch first, then its events.
    """
    chosen = _Chosen.of(batch, numbers)
    speakers = _Speakers(chosen)
    columns = [
        speakers.column(name) if name in speakers.columns else chosen.column(name, type_)
        for name, type_ in COLUMNS.items()
        if name != "frame"
    ]
    columns.append(_frames(chosen))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _lengths(batch: FrameBatch) -> _Integers:
    events = [len(event.frame) for event in batch.events]
    return np.concatenate((batch.frames.lengths, np.array(events, np.int64)))


def _partitions(batch: FrameBatch, partitions: int) -> _Integers:
    """Return the partition of each record, frames first."""
    given, places = np.unique(batch.frames.connections, return_inverse=True)
    of_frames = [partition_of(batch.openings[each].connection, partitions) for each in given.tolist()]
    of_events = [partition_of(event.connection, partitions) for event in batch.events]
    return np.concatenate((np.array(of_frames, np.int64)[places], np.array(of_events, np.int64)))


def _cut(numbers: _Integers, lengths: _Integers) -> Iterator[_Integers]:
    """Cut the records of a partition into blocks of nearly equal numbers, within the limits of a block."""
    most = -(-len(numbers) // -(-len(numbers) // MOST_FRAMES))
    ends = np.cumsum(lengths[numbers])
    begin, before = 0, 0
    while begin < len(numbers):
        within = int(np.searchsorted(ends, before + MOST_BYTES, side="right"))
        end = max(begin + 1, min(begin + most, within))
        yield numbers[begin:end]
        begin, before = end, int(ends[end - 1])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Records of a batch in an order. `is_frame` tells the rows of frames; `events` are the others."""

    batch: FrameBatch
    is_frame: NDArray[np.bool_]
    frames: _Integers
    events: Sequence[Record]

    @classmethod
    def of(cls, batch: FrameBatch, numbers: _Integers) -> _Chosen:
        count = len(batch.frames.starts)
        is_frame = numbers < count
        others = (numbers[~is_frame] - count).tolist()
        return cls(batch, is_frame, numbers[is_frame], [batch.events[other] for other in others])

    def rows(self, of_frames: NDArray[Any], of_events: Iterable[Any]) -> NDArray[Any]:
        """Return a column, made of what frames have and what events have."""
        if not self.events:
            return of_frames
        column = np.empty(len(self.is_frame), of_frames.dtype)
        column[self.is_frame] = of_frames
        column[~self.is_frame] = list(of_events)
        return column

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        if name == "closing":
            of_frames = np.full(len(self.frames), Closing.NONE, np.uint8)
        else:
            of_frames = getattr(self.batch.frames, OF_FRAMES[name])[self.frames]
        return pa.array(self.rows(of_frames, (getattr(event, name) for event in self.events))).view(type_)


class _Speakers:
    """Who speaks in each row: connections, numbered from 0, with all that their rows share."""

    def __init__(self, chosen: _Chosen) -> None:
        batch = chosen.batch
        given, places = np.unique(batch.frames.connections[chosen.frames], return_inverse=True)
        self._speakers = [batch.openings[each] for each in given.tolist()]
        self._numbers = chosen.rows(places.astype(np.int32), self._of_events(chosen.events))
        shared: dict[tuple[Any, ...], int] = {}
        codes = [shared.setdefault(each, len(shared)) for each in map(_SHARED_OF, self._speakers)]
        self._codes = np.array(codes, np.int32)[self._numbers]
        self._shared = {name: [each[place] for each in shared] for place, name in enumerate(_SHARED)}
        self.columns = frozenset({"connection", *_SHARED})

    def column(self, name: str) -> pa.Array:
        if name == "connection":
            return pa.DictionaryArray.from_arrays(pa.array(self._numbers), self._dictionary(), safe=False)
        if name == "run":
            return pa.array(np.array(self._shared["run"], np.uint64)[self._codes])
        places: dict[str, int] = {}
        codes = [places.setdefault(value, len(places)) for value in self._shared[name]]
        indexes = pa.array(np.array(codes, np.int32)[self._codes])
        return pa.DictionaryArray.from_arrays(indexes, pa.array(list(places), pa.utf8()), safe=False)

    def _of_events(self, events: Sequence[Record]) -> list[int]:
        """Number the connections of events; one that no frame has is added."""
        known = {
            _identity(speaker): number for number, speaker in enumerate(self._speakers if events else ())
        }
        numbers = []
        for event in events:
            number = known.setdefault(_identity(event), len(self._speakers))
            if number == len(self._speakers):
                self._speakers.append(event)
            numbers.append(number)
        return numbers

    def _dictionary(self) -> pa.Array:
        ids = pa.py_buffer(b"".join([speaker.connection for speaker in self._speakers]))
        count, field = len(self._speakers), COLUMNS["connection"].value_type
        return pa.StructArray.from_arrays(
            [
                pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), count, [None, ids]),
                pa.array([speaker.client for speaker in self._speakers], pa.utf8()),
            ],
            fields=list(field),
        )


def _identity(record: Record) -> tuple[object, ...]:
    """Return what all records of a connection share."""
    return record.connection, record.run, record.client, record.server, record.cluster, record.feeder


def _frames(chosen: _Chosen) -> pa.Array:
    """Return the column of captured bytes."""
    columns, rows = chosen.batch.frames, chosen.frames
    content, offsets = gathered(chosen.batch.data, columns.starts[rows], columns.lengths[rows])
    if chosen.events:
        lengths = chosen.rows(np.diff(offsets), (len(event.frame) for event in chosen.events))
        further = np.frombuffer(b"".join(event.frame for event in chosen.events), np.uint8)
        ends = np.cumsum([len(event.frame) for event in chosen.events]) + len(content)
        begins = chosen.rows(offsets[:-1], ends - lengths[~chosen.is_frame])
        content, offsets = gathered(np.concatenate((content, further)), begins, lengths)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
