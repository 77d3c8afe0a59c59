"""Batches of frames → blocks, without a `Record` for each frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import COLUMNS, MOST_BYTES, MOST_FRAMES, OF_FRAMES, SCHEMA
from decoders.frame.columnar.open_blocks import OPEN_BLOCK, Arrivals, OpenBlocks, place
from decoders.frame.columnar.speakers import Speakers
from decoders.frame.record import NO_RECORD, Closing, Flag, Kind, Pairing, Record
from decoders.wire.columnar.events import ChangeColumns
from decoders.wire.columnar.frames import FrameBatch, FrameBatchBuilder, FrameColumns

# zstd makes half of what lz4 makes of columns, but takes five times the processor time, mostly for a context
# for each of the many small buffers, and Arrow as much again to read them.
OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""How blocks are compressed."""
MOST_SPEAKERS: Final = 100_000
"""How many connections a writer remembers."""
_TOLD: Final = {
    name: pa.int16() if name == "connection" else type_
    for name, type_ in COLUMNS.items()
    if name in OpenBlocks._fields
}
"""The columns that an open block has as they are written, with their types."""
_NOTHING: Final = np.empty(0, np.uint8)
_UNPAIRED: Final = -1


class Block(NamedTuple):
    """The value of a topic record, its partition, and the number of its rows."""

    partition: int
    rows: int
    value: bytes


def write_block(records: Iterable[Record]) -> bytes:
    """Write few records as one block, in their order, which they must fit."""
    writer = BlockWriter(1)
    made = [block for record in records for block in writer.add_record(record)]
    made += writer.take()
    assert len(made) == 1
    return made[0].value


class BlockWriter:
    """Collects records in a block for each partition. Not for several threads at once.

    Records of a connection stay in their order: that of the batches, and of sequences in a batch. `rows`
    counts the records in open blocks, `bytes` adds up their frames.
    """

    def __init__(self, partitions: int) -> None:
        self.rows = self.bytes = 0
        self._partitions = partitions
        self._speakers = Speakers(partitions)
        self._states = np.zeros(partitions, OPEN_BLOCK)
        self._states["number"] = np.arange(1, partitions + 1)
        self._blocks = OpenBlocks.empty(partitions, MOST_FRAMES, MOST_BYTES)
        # To make its columns took as long as to compress them. The memory of an open block stays the same.
        self._full = [_told(self._blocks, partition, MOST_FRAMES) for partition in range(partitions)]
        self._most_bytes, self._most_speakers = MOST_BYTES, MOST_SPEAKERS
        self._numbering = _Numbering(self._speakers)

    @property
    def waiting(self) -> NDArray[np.bool_]:
        """Tell for each partition whether it has an open block."""
        is_waiting: NDArray[np.bool_] = self._states["rows"] > 0
        return is_waiting

    def add(self, batch: FrameBatch) -> list[Block]:
        """Add a batch, of which all that is kept is copied. Returns the blocks that were full before."""
        made = self._forget() if len(self._speakers) > self._most_speakers else []
        arrivals = self._arrivals(batch)
        lengths, order, numbers = arrivals.frames.lengths, arrivals.order, arrivals.speakers
        self.rows += len(order)
        self.bytes += int(lengths.sum())
        at = 0
        while (at := self._place(arrivals, at)) < len(order):
            partition = int(self._speakers.table["partition"][numbers[order[at]]])
            if self._states["rows"][partition]:
                made.append(self._closed(partition))
            else:
                self._widen(int(lengths[order[at]]))
        return made

    def add_record(self, record: Record) -> list[Block]:
        """Add a record, a frame or an event. Returns the blocks that were full before."""
        builder = FrameBatchBuilder(np.empty(len(record.frame), np.uint8), 0, 1)
        builder.add(record, 0)
        return self.add(builder.build([record]))

    def take(self, partitions: NDArray[np.bool_] | None = None) -> list[Block]:
        """Return what is collected, of all partitions or of those that are told, and begin new blocks."""
        wanted = self.waiting if partitions is None else self.waiting & partitions
        return [self._closed(partition) for partition in np.flatnonzero(wanted).tolist()]

    def _place(self, arrivals: Arrivals, at: int) -> int:
        table, states, blocks = self._speakers.table, self._states, self._blocks
        placed: int = place(arrivals, at, table, states, blocks, self._most_bytes)
        return placed

    def _arrivals(self, batch: FrameBatch) -> Arrivals:
        frames, changes, others = batch.frames, batch.events.changes, batch.events.others
        if not batch.events:
            numbers = self._numbering.of(batch.openings, frames.connections)
            order, closings = np.arange(len(numbers)), np.zeros(len(numbers), np.uint8)
            return Arrivals(order, frames, closings, numbers, batch.data, _NOTHING)
        parts = [frames, _of_changes(changes), _of_records(others, len(batch.data))]
        columns = FrameColumns(*map(np.concatenate, zip(*parts, strict=True)))
        of_others = np.array([event.closing for event in others], np.uint8)
        closings = np.concatenate((np.zeros(len(frames.starts), np.uint8), changes.closings, of_others))
        connections = np.concatenate((frames.connections, changes.connections))
        numbers = self._numbering.of(batch.openings, connections)
        speakers = np.array([self._speakers.number(event) for event in others], np.int64)
        further = np.frombuffer(bytearray().join(event.frame for event in others), np.uint8)
        order = np.argsort(columns.sequences, kind="stable")
        return Arrivals(order, columns, closings, np.concatenate((numbers, speakers)), batch.data, further)

    def _closed(self, partition: int) -> Block:
        """Return the open block of a partition, and begin another one."""
        state, blocks = self._states[partition], self._blocks
        rows, size = int(state["rows"]), int(state["bytes"])
        numbers = blocks.speakers[partition, : state["speakers"]]
        codes = blocks.connection[partition, :rows]
        is_full = rows == blocks.kind.shape[1]
        told = self._full[partition] if is_full else _told(blocks, partition, rows)
        columns = self._speakers.shared(numbers, codes) | told
        columns["connection"] = pa.DictionaryArray.from_arrays(
            told["connection"], self._speakers.dictionary(numbers), safe=False
        )
        offsets, content = blocks.offsets[partition, : rows + 1], blocks.content[partition, :size]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        columns["frame"] = pa.Array.from_buffers(pa.binary(), rows, buffers)
        block = Block(partition, rows, _written([columns[name] for name in COLUMNS]))
        self._states[partition] = (int(self._states["number"].max()) + 1, 0, 0, 0, 0, 0)
        self.rows -= rows
        self.bytes -= size
        return block

    def _widen(self, size: int) -> None:
        """Make room for a frame that is longer than a block."""
        content = np.zeros((self._partitions, size), np.uint8)
        before = self._blocks.content
        content[:, : before.shape[1]] = before
        self._blocks = self._blocks._replace(content=content)

    def _forget(self) -> list[Block]:
        """Begin with connections anew, after all open blocks."""
        made = self.take()
        self._speakers = Speakers(self._partitions)
        self._numbering = _Numbering(self._speakers)
        return made


class _Numbering:
    """The numbers of those who speak in batches, whose connections have numbers of their own."""

    def __init__(self, speakers: Speakers) -> None:
        self._speakers = speakers
        self._openings: Any = None
        self._looked_at = 0
        self._told: list[Record | None] = []
        """The record that opened a connection, by its number in batches."""
        self._numbers = np.empty(0, np.int64)
        self._checked = np.empty(0, np.int64)
        """With which list of openings a number was looked at."""

    def of(self, openings: Sequence[Record], connections: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return who speaks on each connection of a batch."""
        if openings is not self._openings:
            self._openings = openings
            self._looked_at += 1
            if (more := len(openings) - len(self._told)) > 0:
                self._told += [None] * more
                self._numbers = np.concatenate((self._numbers, np.zeros(more, np.int64)))
                self._checked = np.concatenate((self._checked, np.zeros(more, np.int64)))
        is_new = self._checked[connections] != self._looked_at
        if is_new.any():
            self._look_at(np.unique(connections[is_new]))
        numbers: NDArray[np.int64] = self._numbers[connections]
        return numbers

    def _look_at(self, connections: NDArray[np.int32]) -> None:
        """Number these connections, if they are others than before."""
        told, openings = self._told, self._openings
        new: dict[int, Record] = {}
        for connection in connections.tolist():
            opening = openings[connection]
            if told[connection] is not opening:
                told[connection] = new[connection] = opening
        if new:
            self._numbers[list(new)] = self._speakers.numbers(list(new.values()))
        self._checked[connections] = self._looked_at


def _of_changes(changes: ChangeColumns) -> FrameColumns:
    """Return openings and closings as the columns of frames, without bytes."""
    count = len(changes.sequences)
    none = np.zeros(count, np.int64)
    unpaired = np.full(count, _UNPAIRED, np.int16)
    kinds = np.where(changes.closings == Closing.NONE, Kind.OPENED, Kind.CLOSED).astype(np.uint8)
    return FrameColumns(
        connections=changes.connections,
        kinds=kinds,
        directions=changes.directions,
        pairings=np.full(count, Pairing.NONE, np.uint8),
        flags=np.full(count, Flag.NONE, np.uint8),
        paired_api_keys=unpaired,
        paired_api_versions=unpaired,
        sequences=changes.sequences,
        paired_sequences=np.full(count, NO_RECORD),
        captured_at=changes.captured_at,
        positions=changes.positions,
        starts=none,
        lengths=none,
        true_lengths=none,
    )


def _of_records(events: Sequence[Record], begin: int) -> FrameColumns:
    """Return records as the columns of frames; their bytes follow each other from `begin` on."""
    columns = FrameColumns.empty(len(events))
    for name, of_frames in OF_FRAMES.items():
        getattr(columns, of_frames)[:] = list(map(attrgetter(name), events))
    columns.connections[:] = 0
    columns.lengths[:] = [len(event.frame) for event in events]
    columns.starts[:] = begin + np.cumsum(columns.lengths) - columns.lengths
    return columns


def _told(blocks: OpenBlocks, partition: int, rows: int) -> dict[str, pa.Array]:
    """Return views of what an open block tells of its rows by number, `connection` by code."""
    return {
        name: pa.Array.from_buffers(
            type_, rows, [None, pa.py_buffer(getattr(blocks, name)[partition, :rows])]
        )
        for name, type_ in _TOLD.items()
    }


def _written(columns: list[pa.Array]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    value: bytes = sink.getvalue().to_pybytes()
    return value
