"""The windows of one part of a step for the columnar cache, and what is stored of their connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.columnar.open_addressing import free_slots
from expectations.conversation.columnar.window_columns import AT, WindowColumns
from expectations.conversation.in_flight import ApiVersion
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.judging.columnar_moves import NO_VERSION, Moves, move
from expectations.judging.columnar_words import MISSED, Statements, Stored, Table
from expectations.judging.symbol import Symbol
from streaming.judging.into import Into
from streaming.state.connection_layout import PROGRESS_BYTES

_OF_GROUP: Final = 5
_LOSS: Final = PROGRESS_NUMBERS.index("loss")
_Integers = NDArray[np.int64]


class Part:
    """The windows of one part of a step, and what is stored of their connections.

    `group` (int64) is the group of each window, MISSED if it has no transition; `count` is how many groups
    there are.
    """

    def __init__(
        self, columns: WindowColumns, places: _Integers, symbols: Mapping[int, Symbol], into: Into
    ) -> None:
        self.columns = columns
        self.into = into
        self.symbols = [symbols[number] for number in range(len(columns.statements))]
        # Rows of those without a place are never looked at.
        self.rows = into.bucket.connections.rows(places)
        self._places = places
        self._versions: dict[ApiVersion, int] = {}
        self.group = np.full(len(columns), MISSED, np.int64)
        self.count = 0

    def change_of(self, symbol: Symbol) -> tuple[int, int]:
        """Return the number of the API version whose requests in flight a statement changes, and the sign."""
        if symbol.movement.in_flight is None:
            return NO_VERSION, 0
        version, sign = symbol.movement.in_flight
        return self._versions.setdefault(version, len(self._versions)), sign

    def move(
        self, statements: Statements, states: _Integers, table: Table, seed: np.uint64, word: _Integers
    ) -> None:
        """Move the progress of all windows with a transition."""
        columns, rows, count = self.columns, self.rows, len(self.columns)
        by_byte = rows.view(np.uint8).reshape(count, rows.itemsize)
        progress = by_byte[:, :PROGRESS_BYTES].copy().view(np.int64)
        ids = np.stack([rows[name] for name in ("client", "instance", "member")], axis=1)
        kinds = np.stack([rows["server"], rows["software"], columns.server_of], axis=1).astype(np.int64)
        self.stored = Stored(self._places, progress, ids, states, kinds)
        self.moves = Moves(
            self.group,
            np.zeros(count, np.int64),
            np.empty((count, _OF_GROUP), np.int64),
            np.zeros(len(columns.numbers), np.int64),
        )
        self.count = move(
            self.stored,
            columns.bounds,
            columns.numbers,
            np.ascontiguousarray(columns.values),
            statements,
            table,
            seed,
            word,
            np.zeros(len(self._versions), np.int64),
            free_slots(count),
            self.moves,
        )

    def store(self, hits: _Integers) -> None:
        """Store what has moved."""
        connections = self.into.bucket.connections
        connections.advance_all(self._places[hits], self.stored.progress[hits])
        for window in np.flatnonzero(self.moves.moves_in_flight).tolist():
            place = int(self._places[window])
            in_flight = connections.layout.in_flight_after(
                int(self.rows["in_flight"][window]), self._added(window)
            )
            connections.set_in_flight(place, in_flight)

    def _added(self, window: int) -> dict[ApiVersion, int]:
        """Return of each API version how many more requests are in flight after a window."""
        columns, loss = self.columns, int(self.stored.progress[window, _LOSS])
        begin, end = columns.bounds[window : window + 2].tolist()
        added: dict[ApiVersion, int] = {}
        occurrences = zip(
            columns.numbers[begin:end].tolist(),
            columns.values[AT["count"], begin:end].tolist(),
            columns.values[AT["paired_sequence"], begin:end].tolist(),
            strict=True,
        )
        for number, count, paired in occurrences:
            change = self.symbols[number].movement.in_flight
            if change is not None and not 0 < paired <= loss:
                version, sign = change
                added[version] = added.get(version, 0) + sign * count
        return added
