"""Compiled: the rows of batches are placed in the open blocks of their partitions, in one pass."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.wire.columnar.copying import copy_bytes
from decoders.wire.columnar.frames import FrameColumns

OPEN_BLOCK: Final = np.dtype(
    [
        ("number", np.int64),
        ("rows", np.int64),
        ("bytes", np.int64),
        ("speakers", np.int64),
        ("sequence", np.int64),
        ("position", np.int64),
    ]
)
"""An open block: its number, what it holds so far, and `sequence` and `position` of its latest row."""


class OpenBlocks(NamedTuple):
    """The columns of open blocks, by the partition and then by the row of its block.

    They are named as those of a block. `connection` holds codes; `speakers` by code who that is. Frames are
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
    def empty(cls, partitions: int, rows: int, size: int) -> OpenBlocks:
        """Allocate a block of so many rows and bytes of frames for each partition."""
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


class Arrivals(NamedTuple):
    """Records to place, in `order`: the columns of frames and events, one row each.

    The bytes of a row whose start is beyond `data` are in `further`, which continues it. `speakers` numbers
    who speaks.
    """

    order: NDArray[np.int64]
    frames: FrameColumns
    closings: NDArray[np.uint8]
    speakers: NDArray[np.int64]
    data: NDArray[np.uint8]
    further: NDArray[np.uint8]


@compiled(None)
def place(  # noqa: PLR0917 - compiled functions are called by position
    arrivals: Arrivals, first: int, speakers: Any, states: Any, blocks: OpenBlocks, most_bytes: int
) -> int:
    """Place records from a place in their order on, until one does not fit in its block.

    Returns the place of that one, or the number of records. `speakers` is the table of who speaks, `states`
    has an OPEN_BLOCK for each partition.
    """
    order, frames, data, further = arrivals.order, arrivals.frames, arrivals.data, arrivals.further
    most_rows, room = blocks.kind.shape[1], blocks.content.shape[1]
    for at in range(first, len(order)):
        record = order[at]
        speaker = speakers[arrivals.speakers[record]]
        partition = speaker["partition"]
        state = states[partition]
        row, size, length = state["rows"], state["bytes"], frames.lengths[record]
        if size + length > room or (row and (row == most_rows or size + length > most_bytes)):
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
