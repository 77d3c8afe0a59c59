"""Arrivals: a batch of frames and events in order of arrival, with the evidence of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block_reading import Opened
from decoders.frame.columnar.pieces import gathered
from decoders.frame.record import Kind
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.occurrence import EVIDENCE_BYTES, Evidence, beginning_of

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of one source. Its records are numbered: the frames of the batch first, then its events.

    `order` (int64) lists these numbers in order of arrival. `point` makes the evidence of frames from their
    numbers and first bytes; `event_evidence` is that of the events.
    """

    batch: FrameBatch
    order: _Integers
    point: Callable[[_Integers, Sequence[bytes]], list[Evidence]]
    event_evidence: Sequence[Evidence]

    @classmethod
    def of_file(cls, batch: FrameBatch, name: str) -> Arrival:
        """Wrap a batch of one capture file, whose sequences are in order of arrival."""

        def point(numbers: _Integers, beginnings: Sequence[bytes]) -> list[Evidence]:
            positions = batch.frames.positions[numbers].tolist()
            places = zip(beginnings, positions, strict=True)
            return [Evidence(name, beginning, position) for beginning, position in places]

        events = [Evidence(name, beginning_of(event), event.position) for event in batch.events]
        return cls(batch, batch.order(), point, events)

    @classmethod
    def of_topic(cls, opened: Opened, topics: pa.Array, partitions: pa.Array, offsets: pa.Array) -> Arrival:
        """Wrap a batch of blocks, given the topic, partition and offset of each."""
        named = topics.dictionary_encode()
        names, blocks, rows = named.dictionary.to_pylist(), opened.blocks, opened.rows
        places = (named.indices.to_numpy(), partitions.to_numpy(), offsets.to_numpy())

        def point(numbers: _Integers, beginnings: Sequence[bytes]) -> list[Evidence]:
            columns = [place[blocks[numbers]].tolist() for place in places]
            return [
                Evidence(names[name], beginning, None, partition, offset, row)
                for beginning, name, partition, offset, row in zip(
                    beginnings, *columns, rows[numbers].tolist(), strict=True
                )
            ]

        events = opened.batch.events
        event_numbers = np.arange(len(rows) - len(events), len(rows))
        beginnings = [beginning_of(event) for event in events]
        return cls(opened.batch, np.lexsort((rows, blocks)), point, point(event_numbers, beginnings))

    def column(self, of_frames: NDArray[Any], of_events: str) -> NDArray[Any]:
        """Return one value per record, by number: a column of the frames, then an attribute of the events."""
        events = [getattr(event, of_events) for event in self.batch.events]
        return np.concatenate((of_frames, np.array(events, of_frames.dtype)))

    def without_heartbeats(self) -> _Integers:
        """Return the order without the feeder's own heartbeats, which belong to no connection."""
        kinds = self.column(self.batch.frames.kinds, "kind")[self.order]
        without: _Integers = self.order[kinds != Kind.HEARTBEAT]
        return without

    def evidence(self, numbers: _Integers) -> list[Evidence]:
        """Return the evidence of records."""
        count = len(self.batch.frames.starts)
        of_frames = numbers[numbers < count]
        if len(of_frames) == len(numbers):
            return self.point(numbers, self._beginnings(numbers))
        pointed = iter(self.point(of_frames, self._beginnings(of_frames)))
        listed = numbers.tolist()
        return [next(pointed) if each < count else self.event_evidence[each - count] for each in listed]

    def _beginnings(self, numbers: _Integers) -> list[bytes]:
        """Return the first bytes of frames."""
        batch = self.batch
        starts, lengths = batch.frames.starts[numbers], batch.frames.lengths[numbers]
        content, offsets = gathered(batch.data, starts, np.minimum(lengths, EVIDENCE_BYTES))
        joined = content.tobytes()
        return [joined[begin:end] for begin, end in pairwise(offsets.tolist())]
