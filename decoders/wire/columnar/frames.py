"""Frames as columns: what a batch of packets said, in place of one `Record` a frame."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Direction, Flag, Kind, Pairing, Record


class FrameColumns(NamedTuple):
    """One row a frame, in the order of `sequences`; the columns mean what the fields of `Record` mean.

    `connections` numbers the connections of a batch. The frame's captured bytes, without the length
    prefix, are `data[starts[i] : starts[i] + lengths[i]]` of the batch.
    """

    connections: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    directions: NDArray[np.uint8]
    pairings: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    paired_api_keys: NDArray[np.int16]
    paired_api_versions: NDArray[np.int16]
    sequences: NDArray[np.int64]
    paired_sequences: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    true_lengths: NDArray[np.int64]

    @classmethod
    def empty(cls, rows: int) -> FrameColumns:
        """Make room for so many frames."""
        return cls(*_columns(np.empty(rows, _dtype(name)) for name in cls._fields))

    def first(self, rows: int) -> FrameColumns:
        """Give the first rows, as views."""
        return FrameColumns(*_columns(column[:rows] for column in self))

    def widened(self) -> FrameColumns:
        """Copy into columns of twice the room."""
        return FrameColumns(*_columns(np.concatenate((column, np.empty_like(column))) for column in self))


def _columns(columns: Iterable[NDArray[Any]]) -> Iterable[NDArray[Any]]:
    return columns


def _dtype(name: str) -> type[np.generic]:
    if name == "connections":
        return np.int32
    if name.startswith("paired_api"):
        return np.int16
    return np.uint8 if name in ("kinds", "directions", "pairings", "flags") else np.int64


@dataclasses.dataclass(frozen=True, slots=True)
class FrameBatch:
    """What became complete with a batch of packets.

    `frames` are the requests and answers; `events` the records of any other kind, in their order. Both are
    numbered by one sequence. `openings` gives, for each number of a connection in `frames`, the record that
    opened it, whose identity all its records share. `data` is what the batch of packets brought, or a
    larger copy: as long as that lasts, this does.
    """

    data: NDArray[np.uint8]
    frames: FrameColumns
    events: Sequence[Record]
    openings: Sequence[Record]

    def records(self) -> Iterator[Record]:
        """Give frames and events as ordinary records, in their order."""
        return merge(self._frame_records(), self.events, key=attrgetter("sequence"))

    def in_order(self) -> Iterator[int | Record]:
        """Give the rows of frames, and events, in their order."""
        reached = 0
        places = np.searchsorted(self.frames.sequences, [event.sequence for event in self.events])
        for event, place in zip(self.events, places.tolist(), strict=True):
            yield from range(reached, place)
            yield event
            reached = place
        yield from range(reached, len(self.frames.sequences))

    def record(self, number: int) -> Record:
        """Give one frame as an ordinary record."""
        return next(self.records_of(np.array([number])))

    def records_of(self, numbers: NDArray[np.int64]) -> Iterator[Record]:
        """Give these frames as ordinary records."""
        return map(self._record, zip(*(column[numbers].tolist() for column in self.frames), strict=True))

    def _frame_records(self) -> Iterator[Record]:
        return map(self._record, zip(*(column.tolist() for column in self.frames), strict=True))

    def _record(self, row: Iterable[int]) -> Record:
        values = dict(zip(FrameColumns._fields, row, strict=True))
        start = values["starts"]
        return dataclasses.replace(
            self.openings[values["connections"]],
            kind=Kind(values["kinds"]),
            direction=Direction(values["directions"]),
            pairing=Pairing(values["pairings"]),
            flags=Flag(values["flags"]),
            paired_api_key=values["paired_api_keys"],
            paired_api_version=values["paired_api_versions"],
            sequence=values["sequences"],
            paired_sequence=values["paired_sequences"],
            captured_at=values["captured_at"],
            position=values["positions"],
            frame=self.data[start : start + values["lengths"]].tobytes(),
            true_length=values["true_lengths"],
        )
