"""Windows as columns: what a batch says, without an object for each window and occurrence.

The automaton judges most windows by numbers alone (`expectations/judging/walk.py`). So windows travel and
are judged as columns, and become objects where the rules read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.memory import bounds_of, gathered
from expectations.conversation.columnar.statement_columns import StatementColumns
from expectations.conversation.observation import ConnectionKey, Evidence, Occurrence, Statement, Window

MISSING: Final = -(1 << 63)
"""Stands for None."""
OF_OCCURRENCE: Final = (
    "first_sequence",
    "last_sequence",
    "first_captured_at",
    "last_captured_at",
    "previous_captured_at",
    "count",
    "correlation_id",
    "paired_sequence",
    "size",
)
OF_EVIDENCE: Final = ("source", "position", "partition", "offset", "row")
FIELDS: Final = (*OF_OCCURRENCE, *OF_EVIDENCE)
"""The rows of `values`: the fields of an occurrence and of its evidence."""
AT: Final[Mapping[str, int]] = {name: number for number, name in enumerate(FIELDS)}
"""The number of each field's row."""
_Integers = NDArray[np.int64]
_Server = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """The windows of a batch, one after the other.

    For window i, `ids` (bytes) has the connection's ID at 16 * i, `clients[i]` is the client, and
    `servers[server_of[i]]` (int64) are cluster, server and run. Its occurrences are those from `bounds[i]` to
    `bounds[i + 1]` (int64).

    For an occurrence, `numbers` (int64) has the number of its statement in `statements`, and `values` (int64)
    a column, with a row for each of FIELDS. MISSING stands for None, and `source` is a number in `sources`.
    `beginnings` (uint8) holds the frames' first bytes, `begins` (int64) where they begin, and the end.
    """

    ids: bytes
    clients: Sequence[str]
    servers: Sequence[_Server]
    server_of: _Integers
    bounds: _Integers
    numbers: _Integers
    values: _Integers
    sources: Sequence[str]
    beginnings: NDArray[np.uint8]
    begins: _Integers
    statements: StatementColumns

    def __len__(self) -> int:
        return len(self.clients)

    @classmethod
    def of(cls, windows: Sequence[Window]) -> WindowColumns:
        """Lay windows out."""
        keys = [window.connection for window in windows]
        occurrences = [each for window in windows for each in window.occurrences]
        servers: dict[_Server, int] = {}
        sources: dict[str, int] = {}
        of_server = [servers.setdefault((key.cluster, key.server, key.run), len(servers)) for key in keys]
        columns = [[getattr(each, name) for each in occurrences] for name in OF_OCCURRENCE]
        evidence = [each.evidence for each in occurrences]
        columns.append([sources.setdefault(each.source, len(sources)) for each in evidence])
        columns += [[getattr(each, name) for each in evidence] for name in OF_EVIDENCE[1:]]
        beginnings = [each.beginning for each in evidence]
        stated: dict[tuple[int, int], tuple[int, Statement]] = {}
        numbers = [
            stated.setdefault((id(window.statements), number), (len(stated), window.statements[number]))[0]
            for window in windows
            for number in window.numbers
        ]
        return cls(
            b"".join(key.id for key in keys),
            [key.client for key in keys],
            list(servers),
            np.array(of_server, np.int64),
            bounds_of([len(window.occurrences) for window in windows]),
            np.array(numbers, np.int64),
            np.array(
                [[MISSING if value is None else value for value in column] for column in columns], np.int64
            ).reshape(len(FIELDS), len(occurrences)),
            list(sources),
            np.frombuffer(b"".join(beginnings), np.uint8),
            bounds_of([len(each) for each in beginnings]),
            StatementColumns.of(statement for _, statement in stated.values()),
        )

    def chosen(self, windows: _Integers) -> WindowColumns:
        """Return some of the windows, with all statements."""
        begins, lengths = self.bounds[windows], np.diff(self.bounds)[windows]
        bounds = bounds_of(lengths)
        occurrences = np.repeat(begins - bounds[:-1], lengths) + np.arange(bounds[-1])
        starts = self.begins[occurrences]
        beginnings, offsets = gathered(self.beginnings, starts, self.begins[occurrences + 1] - starts)
        ids = np.frombuffer(self.ids, f"V{ID_BYTES}")
        listed = windows.tolist()
        return WindowColumns(
            ids[windows].tobytes(),
            [self.clients[number] for number in listed],
            self.servers,
            self.server_of[windows],
            bounds,
            self.numbers[occurrences],
            self.values[:, occurrences],
            self.sources,
            beginnings,
            offsets,
            self.statements,
        )

    def id(self, number: int) -> bytes:
        """Return the connection ID of a window."""
        return self.ids[number * ID_BYTES : (number + 1) * ID_BYTES]

    def key(self, number: int) -> ConnectionKey:
        """Return the connection of a window."""
        cluster, server, run = self.servers[int(self.server_of[number])]
        return ConnectionKey(self.id(number), cluster, self.clients[number], server, run)

    def windows(self) -> list[Window]:
        """Return all windows as objects."""
        numbers, occurrences, bounds = self.numbers.tolist(), self._occurrences(), self.bounds.tolist()
        return [
            Window(self.key(number), numbers[begin:end], occurrences[begin:end], self.statements)
            for number, (begin, end) in enumerate(pairwise(bounds))
        ]

    def window(self, number: int) -> Window:
        """Return one window as an object."""
        (window,) = self.chosen(np.array([number])).windows()
        return window

    def evidence(self, at: slice | _Integers = slice(None)) -> list[Evidence]:
        """Return the evidence of occurrences: of all, or of those with some numbers."""
        joined = self.beginnings.tobytes()
        bounds = zip(self.begins[:-1][at].tolist(), self.begins[1:][at].tolist(), strict=True)
        sources, *others = (self._column(name, at) for name in OF_EVIDENCE)
        return list(
            map(
                Evidence,
                [self.sources[number or 0] for number in sources],
                [joined[begin:end] for begin, end in bounds],
                *others,
            )
        )

    def _occurrences(self) -> list[Occurrence]:
        first, last, begun, ended, *others = map(self._column, OF_OCCURRENCE)
        return list(map(Occurrence, first, last, begun, ended, self.evidence(), *others))

    def _column(self, name: str, at: slice | _Integers = slice(None)) -> list[Any]:
        """Return a row of `values`, with None for MISSING."""
        listed: list[Any] = self.values[AT[name], at].tolist()
        return [None if value == MISSING else value for value in listed] if MISSING in listed else listed
