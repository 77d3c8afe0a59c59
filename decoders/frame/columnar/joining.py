"""Joins batches of frames into larger ones, for code whose cost is mostly per batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Record
from decoders.memory import gathered
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch, FrameBatchBuilder, FrameColumns

ENOUGH: Final = 128 * 1024 * 1024
"""A batch with so many bytes of frames is not enlarged."""


def joined(batches: Iterable[FrameBatch], least: int) -> Iterator[FrameBatch]:
    """Join consecutive batches until they hold at least `least` records, or ENOUGH bytes.

    Frames are copied, so a batch may be overwritten as soon as the next one is requested.
    """
    joining = Joining()
    for batch in batches:
        joining.add(batch)
        if joining.size >= least or joining.bytes >= ENOUGH:
            yield joining.batch()
            joining = Joining()
    if joining.size:
        yield joining.batch()


class Joining:
    """Collects batches and records. `size` counts the records, `bytes` adds up the frames among them."""

    def __init__(self) -> None:
        self.size = 0
        self.bytes = 0
        self._data: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
        self._columns = [FrameColumns.empty(0)]
        self._events: list[Record] = []
        self._openings: list[Record] = []
        self._numbers: dict[bytes, int] = {}

    def add(self, batch: FrameBatch) -> None:
        """Add a batch; its data is copied."""
        frames = batch.frames
        if not len(frames.starts) and not batch.events:
            return
        content, offsets = gathered(batch.data, frames.starts, frames.lengths)
        moved = frames._replace(starts=offsets[:-1] + self.bytes, connections=self._renumbered(batch))
        self._data.append(content)
        self._columns.append(moved)
        self._events += batch.events
        self.bytes += len(content)
        self.size += len(frames.starts) + len(batch.events)

    def add_record(self, record: Record) -> None:
        """Add a record, a frame or an event."""
        builder = FrameBatchBuilder(np.empty(len(record.frame), np.uint8), 0, 1)
        builder.add(record, 0)
        self.add(builder.build([record]))

    def _renumbered(self, batch: FrameBatch) -> NDArray[np.int32]:
        """Return the connections of a batch, numbered as in the joined batch."""
        given, inverse = np.unique(batch.frames.connections, return_inverse=True)
        openings, known = self._openings, self._numbers
        numbers = []
        for opening in map(batch.openings.__getitem__, given.tolist()):
            number = known.setdefault(opening.connection, len(openings))
            if number == len(openings):
                openings.append(opening)
            numbers.append(number)
        return np.array(numbers, np.int32)[inverse]

    def batch(self) -> FrameBatch:
        """Return all that was added as one batch."""
        columns = FrameColumns(*map(np.concatenate, zip(*self._columns, strict=True)))
        return FrameBatch(np.concatenate(self._data), columns, Events.of(self._events), self._openings)
