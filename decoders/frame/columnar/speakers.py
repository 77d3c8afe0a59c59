"""Speakers: connections by number, with all that their rows share, so that a block is written from arrays.

A speaker is a connection's ID, run, client, server, cluster and feeder. Batches have numbers of their own for
connections; `Numbering` translates these.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import COLUMNS, ID_BYTES, MOST_FRAMES
from decoders.frame.record import Record
from decoders.memory import gathered, grown, int64_fields

SPEAKER: Final = int64_fields("partition block code shared client client_length")
"""A speaker: its partition; the latest block that holds it, from 1 on, and its code there; the number of the
names and the run that it shares with others; the place of its client's text."""
_NAMES: Final = ("server", "cluster", "feeder")
_SHARED_OF: Final = attrgetter(*_NAMES, "run")
_IDENTITY_OF: Final = attrgetter("connection", "run", "client", "server", "cluster", "feeder")
_FIELDS: Final = list(COLUMNS["connection"].value_type)
_FIRST: Final = 64


class Speakers:
    """Numbers connections from 0. A number stands for the whole identity, not for the ID alone."""

    def __init__(self, partitions: int) -> None:
        self.table = np.zeros(_FIRST, SPEAKER)
        self._partitions = partitions
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._shared: dict[tuple[Any, ...], int] = {}
        self._latest: tuple[int, dict[str, pa.Array]] = (-1, {})
        """The `shared` number of the latest block that had only one, and its columns."""
        self._ids = np.zeros((_FIRST, ID_BYTES), np.uint8)
        self._clients = np.zeros(_FIRST, np.uint8)
        self._top = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, records: Sequence[Record]) -> list[int]:
        """Return the number of each record's connection; new connections get the next numbers."""
        identities = list(map(_IDENTITY_OF, records))
        new = {
            each: record
            for each, record in zip(identities, records, strict=True)
            if each not in self._numbers
        }
        if new:
            self._add(new)
        return list(map(self._numbers.__getitem__, identities))

    def _add(self, new: dict[tuple[Any, ...], Record]) -> None:
        first, end = len(self._numbers), len(self._numbers) + len(new)
        self._numbers.update(zip(new, range(first, end), strict=True))
        clients = [record.client.encode() for record in new.values()]
        lengths = np.fromiter(map(len, clients), np.int64, len(clients))
        ends = self._top + np.cumsum(lengths)
        self.table, self._ids = grown(self.table, end), grown(self._ids, end)
        self._clients = grown(self._clients, int(ends[-1]))
        self._clients[self._top : ends[-1]] = np.frombuffer(b"".join(clients), np.uint8)
        self._top = int(ends[-1])
        joined = b"".join(record.connection for record in new.values())
        self._ids[first:end] = np.frombuffer(joined, np.uint8).reshape(-1, ID_BYTES)
        rows = self.table[first:end]
        rows["partition"] = [partition_of(record.connection, self._partitions) for record in new.values()]
        rows["shared"] = [
            self._shared.setdefault(shared, len(self._shared)) for shared in map(_SHARED_OF, new.values())
        ]
        rows["client"], rows["client_length"] = ends - lengths, lengths

    def dictionary(self, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the dictionary of the column `connection`."""
        rows = self.table.take(numbers)
        texts, offsets = gathered(self._clients, rows["client"], rows["client_length"])
        clients = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(texts)]
        ids = [None, pa.py_buffer(self._ids.take(numbers, axis=0))]
        return pa.StructArray.from_arrays(
            [
                pa.Array.from_buffers(pa.binary(ID_BYTES), len(numbers), ids),
                pa.Array.from_buffers(pa.utf8(), len(numbers), clients),
            ],
            fields=_FIELDS,
        )

    def shared(self, numbers: NDArray[np.int32], codes: NDArray[np.int16]) -> dict[str, pa.Array]:
        """Return the columns that connections share. `codes` are indexes into `numbers`, one for each row."""
        shared, rows = self.table["shared"][numbers], len(codes)
        if (shared == shared[0]).all():
            # Most blocks have one broker, the same as the block before.
            return {name: column[:rows] for name, column in self._alone(int(shared[0]), rows).items()}
        used, places = np.unique(shared, return_inverse=True)
        return self._columns_of(used, places[codes])

    def _alone(self, number: int, rows: int) -> dict[str, pa.Array]:
        """Return columns of at least `rows` rows, all of which have this `shared` number."""
        known, columns = self._latest
        if known != number or len(columns["run"]) < rows:
            columns = self._columns_of(np.array([number]), np.zeros(max(rows, MOST_FRAMES), np.int64))
            self._latest = number, columns
        return columns

    def _columns_of(self, used: NDArray[np.int64], of_rows: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return the columns of rows with these `shared` numbers. `of_rows` are indexes into `used`."""
        shared = list(self._shared)
        of_used = [shared[number] for number in used.tolist()]
        columns = {"run": pa.array(np.array([run for *_, run in of_used], np.uint64)[of_rows])}
        for name, values in zip(_NAMES, zip(*of_used, strict=True), strict=False):
            known: dict[str, int] = {}
            indexes = np.array([known.setdefault(value, len(known)) for value in values], np.int16)
            names = pa.array(list(known), pa.utf8())
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(indexes[of_rows]), names, safe=False)
        return columns


class Numbering:
    """Translates the numbers of connections in batches to those of speakers.

    The parts of a batch share its list of openings. A connection is looked up once for each list. If its
    opening is the same record as before, its number is kept.
    """

    def __init__(self, speakers: Speakers) -> None:
        self._speakers = speakers
        self._openings: Any = None
        self._list = 0
        """The number of the current list of openings."""
        self._known: list[Record | None] = []
        """The latest opening of each connection, by its number in batches."""
        self._numbers = np.empty(0, np.int64)
        self._checked = np.empty(0, np.int64)
        """The number of the list in which each connection was looked up."""

    def of(self, openings: Sequence[Record], connections: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the speaker of each connection of a batch."""
        if openings is not self._openings:
            self._openings = openings
            self._list += 1
            self._known += [None] * (len(openings) - len(self._known))
            self._numbers = grown(self._numbers, len(openings))
            self._checked = grown(self._checked, len(openings))
        is_new = self._checked[connections] != self._list
        if is_new.any():
            self._look_up(np.unique(connections[is_new]))
        numbers: NDArray[np.int64] = self._numbers[connections]
        return numbers

    def _look_up(self, connections: NDArray[np.int32]) -> None:
        """Number those of these connections whose opening is another record than before."""
        known, openings = self._known, self._openings
        new: dict[int, Record] = {}
        for connection in connections.tolist():
            opening = openings[connection]
            if known[connection] is not opening:
                known[connection] = new[connection] = opening
        if new:
            self._numbers[list(new)] = self._speakers.numbers(list(new.values()))
        self._checked[connections] = self._list


def partition_of(connection: bytes, partitions: int) -> int:
    """Return the partition of a connection, by its ID."""
    return int.from_bytes(connection[:4]) % partitions
