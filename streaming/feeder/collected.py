"""Records that wait for others of their block."""

from __future__ import annotations

import math
import time
from typing import Final

import numpy as np

from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.frame.columnar.joining import Joining
from decoders.frame.record import Record
from decoders.wire.columnar.frames import FrameBatch

ROW_BYTES: Final = 128
"""Approximate memory of a collected record beside its frame."""


class Collected:
    """What is collected for each partition, and since when. Until there are partitions, all is kept."""

    def __init__(self, block_seconds: float) -> None:
        """Records wait `block_seconds` at most."""
        self._block_seconds = block_seconds
        self._early = Joining()
        self._writer: BlockWriter | None = None
        self._since = np.empty(0)
        """When the open block of each partition began."""
        self._earliest = math.inf
        """When the first of them began."""

    @property
    def records(self) -> int:
        """The number of records."""
        return self._early.size + (self._writer.rows if self._writer else 0)

    @property
    def bytes(self) -> int:
        """Approximate memory of the records."""
        content = self._early.bytes + (self._writer.bytes if self._writer else 0)
        return content + self.records * ROW_BYTES

    def begin(self, partitions: int) -> list[Block]:
        """Begin blocks of so many partitions, and return those that are full."""
        self._writer, self._since = BlockWriter(partitions), np.full(partitions, np.inf)
        early, self._early = self._early, Joining()
        return self._noted(self._writer.add(early.batch()))

    def add(self, batch: FrameBatch) -> list[Block]:
        """Add a batch, of which all that is kept is copied. Returns full blocks."""
        if self._writer is None:
            self._early.add(batch)
            return []
        return self._noted(self._writer.add(batch))

    def add_record(self, record: Record) -> list[Block]:
        """Add a record. Returns full blocks."""
        if self._writer is None:
            self._early.add_record(record)
            return []
        return self._noted(self._writer.add_record(record))

    def take_due(self) -> list[Block]:
        """Return the blocks whose first record has waited long enough."""
        now = time.monotonic()
        if self._writer is None or now - self._earliest < self._block_seconds:
            return []
        return self._noted(self._writer.take(now - self._since >= self._block_seconds))

    def take(self) -> list[Block]:
        """Return all blocks, if there are partitions."""
        return self._noted(self._writer.take()) if self._writer else []

    def drop(self) -> int:
        """Drop what waits for partitions, and return how many records that are."""
        dropped, self._early = self._early.size, Joining()
        return dropped

    def _noted(self, taken: list[Block]) -> list[Block]:
        """Note since when the open blocks are open, now that others were taken."""
        if self._writer:
            if taken:
                self._since[[block.partition for block in taken]] = np.inf
            np.minimum(self._since, time.monotonic(), out=self._since, where=self._writer.waiting)
            self._earliest = float(self._since.min())
        return taken
