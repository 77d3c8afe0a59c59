"""Batches of frames → blocks, without a `Record` for each frame.

Each partition has one open block, in arrays whose memory is reused from block to block. Compiled code places
the rows of a batch in the open blocks of their partitions in one pass. It stops at a row that does not fit,
and continues once that block is closed. The states of an open block, where a row *fits* if there are fewer
than MOST_FRAMES rows and the block takes at most MOST_BYTES with it, nothing compressed:

| state | event | then |
|---|---|---|
| empty | a row of any length comes | it holds the row; its memory is widened for a longer frame |
| holds rows | a row that fits comes | it holds one row more |
| holds rows | a row that does not fit comes | it is closed and empty, and the row comes again |
| holds rows | `take`, or too many connections are remembered | it is closed and empty |

To close a block is to write it as a `Block`. Each new block has a new number, so codes given in earlier
blocks are recognised as outdated. Its steps of `sequence` and `position` start from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.columnar.block import (
    COLUMNS,
    MOST_BYTES,
    MOST_FRAMES,
    ROW_BYTES,
    SCHEMA,
    SCHEMAS_KEY,
    SPEAKER_BYTES,
)
from decoders.frame.columnar.speakers import Numbering, Speakers
from decoders.frame.record import Record
from decoders.memory import copy_bytes, int64_fields
from decoders.wire.columnar.frames import (
    FrameBatch,
    FrameColumns,
    batch_of,
    columns_of_changes,
    columns_of_records,
)

# zstd compresses columns to half of the size, but takes five times the processor time, mostly to set up a
# context for each of the many small buffers, and Arrow takes as long again to read them.
OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""How blocks are compressed."""
MOST_SPEAKERS: Final = 100_000
"""How many connections a writer remembers."""
_NOTHING: Final = np.empty(0, np.uint8)
_OPEN_BLOCK: Final = int64_fields("number rows bytes speakers sequence position")
"""The state of an open block: its number, how many rows, bytes and speakers it holds, and `sequence` and
`position` of its latest row."""


class Block(NamedTuple):
    """The value of a topic record, its partition, and the number of its rows."""

    partition: int
    rows: int
    value: bytes


class _OpenBlocks(NamedTuple):
    """The columns of open blocks, indexed by partition and row, with the names of a block's columns.

    `connection` holds codes, `speakers` the number of the speaker of each code. The frame of a row is
    `content[partition, offsets[partition, row] : offsets[partition, row + 1]]`.
    """

    connection: NDArray[np.int16]
    sequence_step: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    kind: NDArray[np.uint8]
    direction: NDArray[np.uint8]
    pairing: NDArray[np.uint8]
    closing: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    paired_distance: NDArray[np.int64]
    paired_api_key: NDArray[np.int16]
    paired_api_version: NDArray[np.int16]
    position_step: NDArray[np.int64]
    true_length: NDArray[np.int64]
    speakers: NDArray[np.int32]
    offsets: NDArray[np.int32]
    content: NDArray[np.uint8]

    @classmethod
    def empty(cls, partitions: int, rows: int, size: int) -> _OpenBlocks:
        """Allocate open blocks with room for `rows` rows and `size` bytes of frames."""
        widths = {"content": size, "offsets": rows + 1}
        return cls(
            *(
                np.zeros((partitions, widths.get(name, rows)), _DTYPES.get(name, np.int64))
                for name in cls._fields
            )
        )


_DTYPES: Final[dict[str, type[np.generic]]] = {
    "connection": np.int16,
    "paired_api_key": np.int16,
    "paired_api_version": np.int16,
    "speakers": np.int32,
    "offsets": np.int32,
    **dict.fromkeys(("kind", "direction", "pairing", "closing", "flags", "content"), np.uint8),
}


class _Arrivals(NamedTuple):
    """Records to place, in `order`: the columns of frames and events, one row each, with their speakers.

    `further` continues `data`: a row whose start is beyond `data` has its bytes there.
    """

    order: NDArray[np.int64]
    frames: FrameColumns
    closings: NDArray[np.uint8]
    speakers: NDArray[np.int64]
    data: NDArray[np.uint8]
    further: NDArray[np.uint8]


_UNCHANGED: Final = {
    name: pa.int16() if name == "connection" else type_
    for name, type_ in COLUMNS.items()
    if name in _OpenBlocks._fields
}
"""The columns of an open block that are written without any change, with their types."""


def write_block(records: Iterable[Record], schemas: str = "") -> bytes:
    """Write records as one block, in their order. They must fit in it. `schemas` is a digest."""
    writer = BlockWriter(1, schemas)
    made = [block for record in records for block in writer.add(batch_of(record))]
    made += writer.take()
    assert len(made) == 1
    return made[0].value


class BlockWriter:
    """Collects records in a block for each partition. Not for several threads at once.

    Records of a connection stay in their order: that of the batches, and of sequences in a batch. `rows`
    counts the records in open blocks, `bytes` adds up their frames.
    """

    def __init__(self, partitions: int, schemas: str = "") -> None:
        """`schemas` is the digest of those by which the frames were read."""
        self.rows = self.bytes = 0
        self._schema = SCHEMA.with_metadata({**SCHEMA.metadata, SCHEMAS_KEY: schemas})
        self._partitions = partitions
        self._speakers = Speakers(partitions)
        self._states = np.zeros(partitions, _OPEN_BLOCK)
        self._states["number"] = np.arange(1, partitions + 1)
        self._blocks = _OpenBlocks.empty(partitions, MOST_FRAMES, MOST_BYTES)
        self._most_bytes, self._most_speakers = MOST_BYTES, MOST_SPEAKERS
        self._numbering = Numbering(self._speakers)

    @property
    def waiting(self) -> NDArray[np.bool_]:
        """Whether the open block of each partition holds rows (bool)."""
        is_waiting: NDArray[np.bool_] = self._states["rows"] > 0
        return is_waiting

    def add(self, batch: FrameBatch) -> list[Block]:
        """Add a batch; its data is copied. Returns the blocks that were closed to make room."""
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

    def take(self, partitions: NDArray[np.bool_] | None = None) -> list[Block]:
        """Close the blocks that hold rows, of all partitions or of those given (bool), and return them."""
        wanted = self.waiting if partitions is None else self.waiting & partitions
        return [self._closed(partition) for partition in np.flatnonzero(wanted).tolist()]

    def _place(self, arrivals: _Arrivals, at: int) -> int:
        table, states, blocks = self._speakers.table, self._states, self._blocks
        placed: int = _place_rows(arrivals, at, table, states, blocks, self._most_bytes)
        return placed

    def _arrivals(self, batch: FrameBatch) -> _Arrivals:
        frames, changes, others = batch.frames, batch.events.changes, batch.events.others
        if not batch.events:
            numbers = self._numbering.of(batch.openings, frames.connections)
            order, closings = np.arange(len(numbers)), np.zeros(len(numbers), np.uint8)
            return _Arrivals(order, frames, closings, numbers, batch.data, _NOTHING)
        of_events = columns_of_changes(changes), columns_of_records(others, len(batch.data))
        columns = FrameColumns.joined((frames, *of_events))
        of_others = np.array([event.closing for event in others], np.uint8)
        closings = np.concatenate((np.zeros(len(frames.starts), np.uint8), changes.closings, of_others))
        connections = np.concatenate((frames.connections, changes.connections))
        numbers = self._numbering.of(batch.openings, connections)
        speakers = np.array(self._speakers.numbers(others), np.int64)
        further = np.frombuffer(bytearray().join(event.frame for event in others), np.uint8)
        order = np.argsort(columns.sequences, kind="stable")
        return _Arrivals(order, columns, closings, np.concatenate((numbers, speakers)), batch.data, further)

    def _closed(self, partition: int) -> Block:
        """Close the open block of a partition, and return it."""
        state, blocks = self._states[partition], self._blocks
        rows, size = int(state["rows"]), int(state["bytes"])
        numbers = blocks.speakers[partition, : state["speakers"]]
        codes = blocks.connection[partition, :rows]
        views = _views(blocks, partition, rows)
        columns = self._speakers.shared(numbers, codes) | views
        columns["connection"] = pa.DictionaryArray.from_arrays(
            views["connection"], self._speakers.dictionary(numbers), safe=False
        )
        offsets, content = blocks.offsets[partition, : rows + 1], blocks.content[partition, :size]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        columns["frame"] = pa.Array.from_buffers(pa.binary(), rows, buffers)
        block = Block(partition, rows, _written([columns[name] for name in COLUMNS], self._schema))
        self._states[partition] = (int(self._states["number"].max()) + 1, 0, 0, 0, 0, 0)
        self.rows -= rows
        self.bytes -= size
        return block

    def _widen(self, size: int) -> None:
        """Make room for a frame of more than MOST_BYTES."""
        content = np.zeros((self._partitions, size), np.uint8)
        before = self._blocks.content
        content[:, : before.shape[1]] = before
        self._blocks = self._blocks._replace(content=content)

    def _forget(self) -> list[Block]:
        """Forget all connections. Their numbers are in open blocks, so these are closed and returned."""
        made = self.take()
        self._speakers = Speakers(self._partitions)
        self._numbering = Numbering(self._speakers)
        return made


def _views(blocks: _OpenBlocks, partition: int, rows: int) -> dict[str, pa.Array]:
    """Return the columns of an open block that are written unchanged, as views of its memory."""
    return {
        name: pa.Array.from_buffers(
            type_, rows, [None, pa.py_buffer(getattr(blocks, name)[partition, :rows])]
        )
        for name, type_ in _UNCHANGED.items()
    }


def _written(columns: list[pa.Array], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    value: bytes = sink.getvalue().to_pybytes()
    return value


@compiled(None)
def _place_rows(  # noqa: PLR0917 - compiled functions are called by position
    arrivals: _Arrivals, first: int, speakers: Any, states: Any, blocks: _OpenBlocks, most_bytes: int
) -> int:
    """Place records, beginning at a place in their order, until one does not fit in its block.

    Returns the place of that one, or the number of records. `speakers` is the table of `Speakers`, `states`
    has an _OPEN_BLOCK for each partition.
    """
    order, frames, data, further = arrivals.order, arrivals.frames, arrivals.data, arrivals.further
    most_rows, room = blocks.kind.shape[1], blocks.content.shape[1]
    for at in range(first, len(order)):
        record = order[at]
        speaker = speakers[arrivals.speakers[record]]
        partition = speaker["partition"]
        state = states[partition]
        row, size, length = state["rows"], state["bytes"], frames.lengths[record]
        taken = size + length + (row + 1) * ROW_BYTES + (state["speakers"] + 1) * SPEAKER_BYTES
        if size + length > room or (row and (row == most_rows or taken > most_bytes)):
            return at
        if speaker["block"] != state["number"]:
            speaker["block"] = state["number"]
            speaker["code"] = state["speakers"]
            blocks.speakers[partition, state["speakers"]] = arrivals.speakers[record]
            state["speakers"] += 1
        sequence, position, paired = (
            frames.sequences[record],
            frames.positions[record],
            frames.paired_sequences[record],
        )
        blocks.connection[partition, row] = speaker["code"]
        blocks.sequence_step[partition, row] = sequence - state["sequence"]
        blocks.captured_at[partition, row] = frames.captured_at[record]
        blocks.kind[partition, row] = frames.kinds[record]
        blocks.direction[partition, row] = frames.directions[record]
        blocks.pairing[partition, row] = frames.pairings[record]
        blocks.closing[partition, row] = arrivals.closings[record]
        blocks.flags[partition, row] = frames.flags[record]
        blocks.paired_distance[partition, row] = sequence - paired if paired else 0
        blocks.paired_api_key[partition, row] = frames.paired_api_keys[record]
        blocks.paired_api_version[partition, row] = frames.paired_api_versions[record]
        blocks.position_step[partition, row] = position - state["position"]
        blocks.true_length[partition, row] = frames.true_lengths[record]
        begin, end = frames.starts[record], size + length
        if begin < len(data):
            copy_bytes(data[begin : begin + length], blocks.content[partition, size:end])
        else:
            begin -= len(data)
            copy_bytes(further[begin : begin + length], blocks.content[partition, size:end])
        blocks.offsets[partition, row + 1] = end
        state["sequence"], state["position"] = sequence, position
        state["rows"], state["bytes"] = row + 1, end
    return len(order)
