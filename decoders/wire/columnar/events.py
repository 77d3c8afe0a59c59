"""The records of a batch that are no frames, made when somebody asks for them.

Most are openings and closings that compiled code has found: these stand in columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Closing, Direction, Kind, Record

_CLOSINGS = list(Closing)
_DIRECTIONS = list(Direction)


class ChangeColumns(NamedTuple):
    """Connections that opened or closed, one row each, in the order of `sequences`.

    Columns mean what the fields of `Record` mean; `connections` are numbers of connections in a batch. A row
    whose `closings` is NONE is an opening.
    """

    connections: NDArray[np.int32]
    sequences: NDArray[np.int64]
    captured_at: NDArray[np.int64]
    positions: NDArray[np.int64]
    closings: NDArray[np.uint8]
    directions: NDArray[np.uint8]

    @classmethod
    def joined(cls, parts: Sequence[ChangeColumns]) -> ChangeColumns:
        """Concatenate columns."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def of(self, rows: NDArray[np.int64]) -> ChangeColumns:
        """Return these rows."""
        return ChangeColumns(*untyped(column[rows] for column in self))


def untyped(columns: Iterable[NDArray[Any]]) -> Iterable[NDArray[Any]]:
    """Return the columns as they are, for a NamedTuple whose fields have different dtypes."""
    return columns


NO_CHANGES = ChangeColumns(
    np.empty(0, np.int32),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.uint8),
    np.empty(0, np.uint8),
)


class Events(Sequence[Record]):
    """Records in their order: the changes of connections as columns, the others as they are."""

    def __init__(self, changes: ChangeColumns, others: list[Record], openings: Sequence[Record]) -> None:
        """`openings` holds the OPENED record of each connection number of `changes`."""
        self.changes = changes
        self.others = others
        self._openings = openings
        self._order = _order(changes, others)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Events:
        """Take records that were made already, in their order."""
        return cls(NO_CHANGES, list(records), ())

    def __len__(self) -> int:
        return len(self.changes.sequences) + len(self.others)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Events: ...
    def __getitem__(self, place: int | slice) -> Record | Events:
        if isinstance(place, slice):
            return self.chosen(np.arange(len(self))[place])
        if self._order is None:
            return self.others[place]
        number, count = int(self._order[place]), len(self.changes.sequences)
        return self.others[number - count] if number >= count else self._change(number)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.others) if self._order is None else map(self.__getitem__, range(len(self)))

    @property
    def sequences(self) -> NDArray[np.int64]:
        """The numbers of the records."""
        others = np.array([record.sequence for record in self.others], np.int64)
        if self._order is None:
            return others
        numbers: NDArray[np.int64] = np.concatenate((self.changes.sequences, others))[self._order]
        return numbers

    def with_others(self, change: Callable[[Record], Record]) -> Events:
        """Return the same records, but those that open or close no connection are changed."""
        return Events(self.changes, [change(record) for record in self.others], self._openings)

    def chosen(self, places: NDArray[np.int64]) -> Events:
        """Return the records at these places, which rise."""
        if self._order is None:
            return Events.of(self.others[place] for place in places.tolist())
        numbers, count = self._order[places], len(self.changes.sequences)
        others = [self.others[number - count] for number in numbers[numbers >= count].tolist()]
        return Events(self.changes.of(numbers[numbers < count]), others, self._openings)

    def _change(self, row: int) -> Record:
        changes = self.changes
        opening = self._openings[changes.connections.item(row)]
        closing = changes.closings.item(row)
        if not closing:
            return opening
        return Record(
            Kind.CLOSED,
            opening.connection,
            opening.run,
            changes.sequences.item(row),
            changes.captured_at.item(row),
            opening.client,
            opening.server,
            opening.cluster,
            opening.feeder,
            _DIRECTIONS[changes.directions.item(row)],
            closing=_CLOSINGS[closing],
            position=changes.positions.item(row),
        )


def _order(changes: ChangeColumns, others: list[Record]) -> NDArray[np.int64] | None:
    """Return the records by sequence, changes numbered before the others; None if there are no changes."""
    if not len(changes.sequences):
        return None
    if not others:
        return np.arange(len(changes.sequences))
    numbers = np.concatenate((changes.sequences, np.array([each.sequence for each in others], np.int64)))
    order: NDArray[np.int64] = np.argsort(numbers, kind="stable")
    return order
