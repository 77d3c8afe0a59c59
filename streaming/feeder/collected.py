"""Records that wait for others of their block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from decoders.frame.columnar.block_writing import Block, blocks_of, is_enough
from decoders.frame.columnar.joining import Joining
from decoders.frame.record import Record
from decoders.wire.columnar.frames import FrameBatch

ROW_BYTES: Final = 128
"""Approximate memory of a collected record beside its frame."""


class Collected:
    """What is collected for all partitions at once, and since when."""

    def __init__(self, block_seconds: float) -> None:
        """Records wait `block_seconds` at most."""
        self._block_seconds = block_seconds
        self._joining, self._since = Joining(), 0.0

    @property
    def records(self) -> int:
        """The number of records."""
        return self._joining.size

    @property
    def bytes(self) -> int:
        """Approximate memory of the records."""
        return self._joining.bytes + self._joining.size * ROW_BYTES

    def add(self, batch: FrameBatch) -> None:
        """Add a batch. What is kept of it is copied."""
        self._begin()
        self._joining.add(batch)

    def add_record(self, record: Record) -> None:
        """Add a record."""
        self._begin()
        self._joining.add_record(record)

    def is_full(self, partitions: int) -> bool:
        """Whether the records fill a block for each partition."""
        return is_enough(self._joining.size, self._joining.bytes, partitions)

    def is_due(self) -> bool:
        """Whether the first record has waited long enough."""
        return self.records > 0 and time.monotonic() - self._since >= self._block_seconds

    def take(self, partitions: int) -> Iterator[Block]:
        """Return all records as blocks, and begin anew."""
        if self.records:
            joining, self._joining = self._joining, Joining()
            yield from blocks_of(joining.batch(), partitions)

    def drop(self) -> int:
        """Drop all records, and return their number."""
        dropped, self._joining = self.records, Joining()
        return dropped

    def _begin(self) -> None:
        if not self.records:
            self._since = time.monotonic()
