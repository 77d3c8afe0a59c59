"""Frames as columns, instead of one `Record` per frame: the batches of them, built, divided and joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import NO_RECORD, Closing, Direction, Flag, Kind, Pairing, Record
from decoders.memory import gathered
from decoders.wire.columnar.events import NO_CHANGES, ChangeColumns, Events, untyped
from decoders.wire.columnar.packets import PacketBatch

ENOUGH: Final = 128 * 1024 * 1024
"""A batch with so many bytes of frames is not enlarged."""
_FRAME_KINDS = frozenset({Kind.REQUEST, Kind.RESPONSE})
OF_FRAMES: Final = {
    "kind": "kinds",
    "direction": "directions",
    "pairing": "pairings",
    "flags": "flags",
    "paired_api_key": "paired_api_keys",
    "paired_api_version": "paired_api_versions",
    "sequence": "sequences",
    "paired_sequence": "paired_sequences",
    "captured_at": "captured_at",
    "position": "positions",
    "true_length": "true_lengths",
}
"""The fields of a record that are a frame's own, not its connection's, with their names in `FrameColumns`."""
OF_CHANGES: Final = {
    "pairing": int(Pairing.NONE),
    "flags": int(Flag.NONE),
    "paired_sequence": NO_RECORD,
    "paired_api_key": -1,
    "paired_api_version": -1,
    "true_length": 0,
}
"""The fields of a frame's own that `ChangeColumns` lack, with the values that openings and closings have."""


class FrameColumns(NamedTuple):
    """One row per frame, in the order of `sequences`; the columns mean what the fields of `Record` mean.

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
        """Allocate columns of `rows` rows."""
        return cls(*untyped(np.empty(rows, _dtype(name)) for name in cls._fields))

    @classmethod
    def joined(cls, parts: Iterable[FrameColumns]) -> FrameColumns:
        """Concatenate columns."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def of(self, rows: NDArray[np.int64] | slice) -> FrameColumns:
        """Return these rows, those of a slice as views."""
        return FrameColumns(*untyped(column[rows] for column in self))


def _dtype(name: str) -> type[np.generic]:
    if name == "connections":
        return np.int32
    if name.startswith("paired_api"):
        return np.int16
    return np.uint8 if name in ("kinds", "directions", "pairings", "flags") else np.int64


def columns_of_changes(changes: ChangeColumns) -> FrameColumns:
    """Return openings and closings as rows like those of frames, without bytes."""
    count = len(changes.sequences)
    none = np.zeros(count, np.int64)
    shared = {OF_FRAMES[name]: value for name, value in OF_CHANGES.items()}
    kinds = np.where(changes.closings == Closing.NONE, Kind.OPENED, Kind.CLOSED).astype(np.uint8)
    return FrameColumns(
        connections=changes.connections,
        kinds=kinds,
        directions=changes.directions,
        sequences=changes.sequences,
        captured_at=changes.captured_at,
        positions=changes.positions,
        starts=none,
        lengths=none,
        **{name: np.full(count, value, _dtype(name)) for name, value in shared.items()},
    )


def columns_of_records(events: Sequence[Record], begin: int) -> FrameColumns:
    """Return records as such rows, of connection 0; their bytes follow each other from `begin` on."""
    columns = FrameColumns.empty(len(events))
    for name, of_frames in OF_FRAMES.items():
        getattr(columns, of_frames)[:] = list(map(attrgetter(name), events))
    columns.connections[:] = 0
    columns.lengths[:] = [len(event.frame) for event in events]
    columns.starts[:] = begin + np.cumsum(columns.lengths) - columns.lengths
    return columns


@dataclasses.dataclass(frozen=True, slots=True)
class FrameBatch:
    """The frames and events that a batch of packets completes.

    `frames` are the requests and responses, `events` the records of all other kinds, in their order. Both are
    numbered by one sequence. `openings` holds the OPENED record of each connection number in `frames`; all
    records of a connection share its identity. `data` is the data of the batch of packets, or a larger copy,
    and the frames are valid as long as it is.
    """

    data: NDArray[np.uint8]
    frames: FrameColumns
    events: Events
    openings: Sequence[Record]

    def records(self) -> Iterator[Record]:
        """Yield frames and events as records, in their order."""
        return merge(self.records_of(slice(None)), self.events, key=attrgetter("sequence"))

    def order(self) -> NDArray[np.int64]:
        """Number the records, the frames first and then the events, and return the numbers by sequence."""
        numbers = np.concatenate((self.frames.sequences, self.events.sequences))
        order: NDArray[np.int64] = np.argsort(numbers, kind="stable")
        return order

    def columns(self) -> FrameColumns:
        """Return a row for each record: the frames first and then the events, in their order.

        The bytes of events follow the data, one after the other. Events that are not in `events.changes` have
        connection 0.
        """
        events = self.events
        of_changes = columns_of_changes(events.changes)
        of_others = columns_of_records(events.others, len(self.data))
        of_events = FrameColumns.joined((of_changes, of_others)).of(events.order)
        return FrameColumns.joined((self.frames, of_events))

    def parts(self, size: int) -> Iterator[FrameBatch]:
        """Yield batches of at most `size` records each, in their order, which share data and columns."""
        count = len(self.frames.sequences)
        if count + len(self.events) <= size:
            yield self
            return
        order, first = self.order(), 0
        for begin in range(0, len(order), size):
            numbers = order[begin : begin + size]
            # Frames stand in their order, so those of a part follow each other.
            end = first + int(np.count_nonzero(numbers < count))
            events = self.events.chosen(numbers[numbers >= count] - count)
            yield dataclasses.replace(self, frames=self.frames.of(slice(first, end)), events=events)
            first = end

    def record(self, row: int) -> Record:
        """Return the frame of a row as a record."""
        return next(self.records_of(np.array([row])))

    def records_of(self, rows: NDArray[np.int64] | slice) -> Iterator[Record]:
        """Yield the frames of these rows as records."""
        return map(self._record, zip(*(column[rows].tolist() for column in self.frames), strict=True))

    def _record(self, row: Iterable[int]) -> Record:
        values = dict(zip(FrameColumns._fields, row, strict=True))
        start = values["starts"]
        return msgspec.structs.replace(
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


class FrameBatchBuilder:
    """Builds a `FrameBatch`. The first `rows` rows of `columns` and `top` bytes of `data` are used.

    `events` are the records of other kinds than frames; `changes` has the openings and closings of compiled
    code.
    """

    def __init__(self, data: NDArray[np.uint8], top: int, rows: int) -> None:
        self.data = data
        self.columns = FrameColumns.empty(rows)
        self.top = top
        self.rows = 0
        self.events: list[Record] = []
        self.changes: list[ChangeColumns] = []

    @classmethod
    def for_packets(cls, packets: PacketBatch) -> FrameBatchBuilder:
        """Begin with the data of a batch of packets, so that frames need not be copied out of it."""
        return cls(packets.data, packets.used, 2 * packets.size + 1)

    def put(self, content: bytes | NDArray[np.uint8], capacity: int = 0) -> int:
        """Append bytes to the data, and return their offset. They may grow to `capacity` bytes there."""
        start = self.take(max(len(content), capacity))
        self.data[start : start + len(content)] = np.frombuffer(content, np.uint8)
        return start

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes, and no more if there was less."""
        if self.top + size > len(self.data):
            self._copy_data(self.top + size)

    def take(self, size: int) -> int:
        """Append bytes of any value to the data, and return their offset."""
        while self.top + size > len(self.data):
            self.grow_data()
        self.top += size
        return self.top - size

    def grow_data(self) -> None:
        """Copy the data into an array of twice the size."""
        self._copy_data(2 * len(self.data) + 1)

    def _copy_data(self, size: int) -> None:
        data = np.empty(size, np.uint8)
        data[: self.top] = self.data[: self.top]
        self.data = data

    def grow_rows(self) -> None:
        """Copy the columns into columns with twice as many rows."""
        doubled = (np.concatenate((column, np.empty_like(column))) for column in self.columns)
        self.columns = FrameColumns(*untyped(doubled))

    def add(self, record: Record, connection: int) -> None:
        """Append a record that the scalar tracker made, of the connection with this number."""
        if record.kind not in _FRAME_KINDS:
            self.events.append(record)
            return
        if self.rows == len(self.columns.sequences):
            self.grow_rows()
        columns, row = self.columns, self.rows
        for name, of_frames in OF_FRAMES.items():
            getattr(columns, of_frames)[row] = getattr(record, name)
        columns.connections[row] = connection
        columns.starts[row], columns.lengths[row] = self.put(record.frame), len(record.frame)
        self.rows += 1

    def build(self, openings: Sequence[Record]) -> FrameBatch:
        """Return the batch; `openings` holds the OPENED record of each connection number."""
        changes = ChangeColumns.joined([NO_CHANGES, *self.changes])
        events = Events(changes, self.events, openings)
        return FrameBatch(self.data, self.columns.of(slice(self.rows)), events, openings)


def batch_of(record: Record) -> FrameBatch:
    """Return the batch of one record, a frame or an event."""
    builder = FrameBatchBuilder(np.empty(len(record.frame), np.uint8), 0, 1)
    builder.add(record, 0)
    return builder.build([record])


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
        self._changes = [NO_CHANGES]
        self._others: list[Record] = []
        self._openings: list[Record] = []
        self._numbers: dict[bytes, int] = {}

    def add(self, batch: FrameBatch) -> None:
        """Add a batch; its data is copied."""
        frames, events = batch.frames, batch.events
        if not len(frames.starts) and not events:
            return
        content, offsets = gathered(batch.data, frames.starts, frames.lengths)
        numbers = self._renumbered(batch)
        of_frames, of_changes = np.split(numbers, [len(frames.starts)])
        self._data.append(content)
        self._columns.append(frames._replace(starts=offsets[:-1] + self.bytes, connections=of_frames))
        self._changes.append(events.changes._replace(connections=of_changes))
        self._others += events.others
        self.bytes += len(content)
        self.size += len(frames.starts) + len(events)

    def _renumbered(self, batch: FrameBatch) -> NDArray[np.int32]:
        """Return the connections of frames and of changes, numbered as in the joined batch."""
        connections = np.concatenate((batch.frames.connections, batch.events.changes.connections))
        given, inverse = np.unique(connections, return_inverse=True)
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
        columns = FrameColumns.joined(self._columns)
        events = Events(ChangeColumns.joined(self._changes), self._others, self._openings)
        return FrameBatch(np.concatenate(self._data), columns, events, self._openings)
