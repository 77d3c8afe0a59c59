"""The frames and events of one batch while they are gathered, and the bytes they consist of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Kind, Record
from decoders.wire.columnar.frames import FrameBatch, FrameColumns
from decoders.wire.columnar.packets import PacketBatch

_FRAMES = frozenset({Kind.REQUEST, Kind.RESPONSE})


class Gathering:
    """What one batch gives. `rows` of `columns` and the bytes of `data` before `top` are taken."""

    def __init__(self, data: NDArray[np.uint8], top: int, rows: int) -> None:
        self.data = data
        self.columns = FrameColumns.empty(rows)
        self.top = top
        self.rows = 0
        self._events: list[Record] = []

    @classmethod
    def beside(cls, packets: PacketBatch) -> Gathering:
        """Begin for a batch of packets, whose data frames may point into."""
        return cls(packets.data, packets.room, 2 * packets.size + 1)

    def put(self, content: bytes | NDArray[np.uint8]) -> int:
        """Write bytes behind the others, and tell where they begin."""
        start, end = self.top, self.top + len(content)
        while end > len(self.data):
            self.enlarge()
        self.data[start:end] = np.frombuffer(content, np.uint8)
        self.top = end
        return start

    def enlarge(self) -> None:
        """Make more room for bytes."""
        data = np.empty(2 * len(self.data) + 1, np.uint8)
        data[: self.top] = self.data[: self.top]
        self.data = data

    def widen(self) -> None:
        """Make more room for rows."""
        self.columns = self.columns.widened()

    def add(self, record: Record, connection: int) -> None:
        """Take a record that the scalar code made, of the connection with a number."""
        if record.kind not in _FRAMES:
            self._events.append(record)
            return
        if self.rows == len(self.columns.sequences):
            self.widen()
        row = (
            connection,
            record.kind,
            record.direction,
            record.pairing,
            record.flags,
            record.paired_api_key,
            record.paired_api_version,
            record.sequence,
            record.paired_sequence,
            record.captured_at,
            record.position,
            self.put(record.frame),
            len(record.frame),
            record.true_length,
        )
        columns: tuple[NDArray[Any], ...] = self.columns
        for column, value in zip(columns, row, strict=True):
            column[self.rows] = value
        self.rows += 1

    def batch(self, openings: list[Record]) -> FrameBatch:
        """Give all of it."""
        return FrameBatch(self.data, self.columns.first(self.rows), self._events, openings)
