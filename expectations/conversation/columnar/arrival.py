"""Arrivals: a batch of frames and events in order of arrival, with the evidence of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block_reading import Opened
from decoders.frame.columnar.pieces import gathered
from decoders.frame.record import Kind
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.columnar.window_columns import MISSING, OF_EVIDENCE
from expectations.conversation.occurrence import EVIDENCE_BYTES, beginning_of

_Integers = NDArray[np.int64]
_SOURCE: Final = OF_EVIDENCE.index("source")
_POSITION: Final = OF_EVIDENCE.index("position")


class Places(NamedTuple):
    """Where records are stored: `values` (int64) has a column per record and a row for each of OF_EVIDENCE.

    MISSING stands for None. `sources` names what the row `source` numbers.
    """

    sources: Sequence[str]
    values: _Integers


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of one source. Its records are numbered: the frames of the batch first, then its events.

    `order` (int64) lists these numbers in order of arrival. `places` tells where records are stored, by their
    numbers.
    """

    batch: FrameBatch
    order: _Integers
    places: Callable[[_Integers], Places]

    @classmethod
    def of_file(cls, batch: FrameBatch, name: str) -> Arrival:
        """Wrap a batch of one capture file, whose sequences are in order of arrival."""
        of_events = [MISSING if event.position is None else event.position for event in batch.events]
        positions = np.concatenate((batch.frames.positions, np.array(of_events, np.int64)))

        def places(numbers: _Integers) -> Places:
            values = np.full((len(OF_EVIDENCE), len(numbers)), MISSING, np.int64)
            values[_SOURCE], values[_POSITION] = 0, positions[numbers]
            return Places([name], values)

        return cls(batch, batch.order(), places)

    @classmethod
    def of_topic(cls, opened: Opened, topics: pa.Array, partitions: pa.Array, offsets: pa.Array) -> Arrival:
        """Wrap a batch of blocks, given the topic, partition and offset of each."""
        named = topics.dictionary_encode()
        names, blocks, rows = named.dictionary.to_pylist(), opened.blocks, opened.rows
        of_blocks = [each.to_numpy() for each in (named.indices, partitions, offsets)]

        def places(numbers: _Integers) -> Places:
            inside = blocks[numbers]
            missing = np.full(len(numbers), MISSING, np.int64)
            topic, partition, offset = (values[inside] for values in of_blocks)
            return Places(names, np.array([topic, missing, partition, offset, rows[numbers]], np.int64))

        return cls(opened.batch, np.lexsort((rows, blocks)), places)

    def column(self, of_frames: NDArray[Any], of_events: str) -> NDArray[Any]:
        """Return one value per record, by number: a column of the frames, then an attribute of the events."""
        events = [getattr(event, of_events) for event in self.batch.events]
        return np.concatenate((of_frames, np.array(events, of_frames.dtype)))

    def without_heartbeats(self) -> _Integers:
        """Return the order without the feeder's own heartbeats, which belong to no connection."""
        kinds = self.column(self.batch.frames.kinds, "kind")[self.order]
        without: _Integers = self.order[kinds != Kind.HEARTBEAT]
        return without

    def beginnings(self, numbers: _Integers) -> tuple[NDArray[np.uint8], _Integers]:
        """Return the first bytes of records, and where those of each begin, with the end as the last."""
        batch, events = self.batch, [beginning_of(event) for event in self.batch.events]
        begins = len(batch.data) + np.cumsum([0, *map(len, events)])[:-1]
        starts = np.concatenate((batch.frames.starts, begins))[numbers]
        lengths = np.concatenate((batch.frames.lengths, [len(each) for each in events])).astype(np.int64)
        data = batch.data
        if any(events):
            data = np.concatenate((data, np.frombuffer(b"".join(events), np.uint8)))
        return gathered(data, starts, np.minimum(lengths[numbers], EVIDENCE_BYTES))
