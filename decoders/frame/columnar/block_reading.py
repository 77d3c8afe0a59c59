"""Blocks → batches of frames, as columns.

A batch numbers its connections by their IDs, and has one identity for each: client, server, cluster, feeder
and run, as the first block states them. Rows of that identity stay columns if they are ordinary requests and
responses, or say no more than that the connection opened or closed. All other rows become records.
"""

from __future__ import annotations

import functools
import ipaddress
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import SHARED, BlockColumns, BlockError, read_columns
from decoders.frame.record import (
    Closing,
    Direction,
    Endpoint,
    Flag,
    Kind,
    Pairing,
    Record,
    host_of,
)
from decoders.wire.columnar.events import NO_CHANGES, ChangeColumns, Events
from decoders.wire.columnar.frames import OF_CHANGES, OF_FRAMES, FrameBatch, FrameColumns

MOST_OPENINGS: Final = 100_000
"""How many identities of connections a reader remembers."""
ENOUGH_ROWS: Final = 500_000
ENOUGH_BYTES: Final = 128 * 1024 * 1024
"""A batch with so many rows or bytes of frames takes no further block, so that its size is bounded."""
_PORTS: Final = range(1 << 16)
_PORT: Final = re.compile("0|[1-9][0-9]{0,4}")
_MEMBERS: Final[dict[str, Mapping[int, object]]] = {
    "kind": {int(each): each for each in Kind},
    "direction": {int(each): each for each in Direction},
    "pairing": {int(each): each for each in Pairing},
    "closing": {int(each): each for each in Closing},
    "flags": {number: Flag(number) for number in range(1 << 8)},
}
"""Members by their numbers: a look-up in a dictionary is faster than one in an enumeration."""
_Integers = NDArray[np.int64]
_CHANGED: Final = ("sequence", "captured_at", "position", "closing", "direction")
"""The fields of a record that `ChangeColumns` have, in their order."""
_NO_PLACES: Final = np.empty((2, 0), np.int64)
_Shared = tuple[str, str, str, int]
"""Server, cluster, feeder and run."""
_Identity = tuple[str, _Shared]
"""The client, and all that other connections may share."""


class BlockBatch(NamedTuple):
    """Several blocks as one batch, and the values that are no blocks.

    `blocks` and `rows` (int64) locate each record, frames first and then events: the number of its value
    among those read, and its row in that block. `refused` has a line for each value that is no block, by the
    value's number. `size` counts the values, blocks or not.
    """

    batch: FrameBatch
    blocks: _Integers
    rows: _Integers
    refused: dict[int, str]
    size: int


class BlockReader:
    """Reads blocks. It remembers connections from one call to the next. Not for several threads at once."""

    def __init__(self, schemas: str = "") -> None:
        """`schemas` is the digest of our schemas. READ_WHOLE is ignored in blocks of feeders with others."""
        self._schemas = schemas
        self._known: dict[bytes, tuple[_Identity, Record]] = {}

    def read(
        self, values: Iterable[pa.Buffer | bytes | None], enough: int = ENOUGH_ROWS
    ) -> Iterator[BlockBatch]:
        """Read the values of topic records. Yields batches of at least `enough` rows; the last may be empty.

        A batch of ENOUGH_BYTES is complete, too. A value that is no block is refused, and raises nothing.
        """
        gathering = self._gathering()
        for number, value in enumerate(values):
            if gathering.rows >= enough or gathering.size >= ENOUGH_BYTES:
                yield gathering.opened()
                gathering = self._gathering()
            try:
                gathering.add(number, self._trusted(read_columns(value or b"")))
            except BlockError as error:
                gathering.refused[number] = str(error)
        yield gathering.opened()

    def _trusted(self, columns: BlockColumns) -> BlockColumns:
        if columns.schemas == self._schemas:
            return columns
        flags = columns.values["flags"] & np.uint8(0xFF ^ Flag.READ_WHOLE)
        return columns._replace(values={**columns.values, "flags": flags})

    def _gathering(self) -> _Gathering:
        if len(self._known) > MOST_OPENINGS:
            self._known.clear()
        return _Gathering(self._known)


def read_block(value: bytes) -> Iterator[Record]:
    """Yield the records of one block, row by row. Raises BlockError."""
    (opened,) = BlockReader().read([value])
    for line in opened.refused.values():
        raise BlockError(line)
    batch, count = opened.batch, len(opened.batch.frames.starts)
    frames = list(batch.records_of(np.arange(count)))
    for number in np.argsort(opened.rows).tolist():
        yield frames[number] if number < count else batch.events[number - count]


@dataclass(slots=True)
class _Gathering:
    """Collects the blocks of one batch. `rows` and `size` count the rows and bytes so far.

    `known` holds the identities and openings of connections in earlier batches. `_places` has block and row
    of frames, changes and other events, each as two rows.
    """

    known: dict[bytes, tuple[_Identity, Record]]
    rows: int = 0
    size: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    _openings: list[Record] = field(default_factory=list)
    _identities: list[_Identity] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _frames: list[FrameColumns] = field(default_factory=lambda: [FrameColumns.empty(0)])
    _data: list[NDArray[np.uint8]] = field(default_factory=lambda: [np.empty(0, np.uint8)])
    _changes: list[ChangeColumns] = field(default_factory=lambda: [NO_CHANGES])
    _others: list[Record] = field(default_factory=list)
    _places: list[tuple[_Integers, ...]] = field(default_factory=lambda: [(_NO_PLACES,) * 3])

    def add(self, block: int, columns: BlockColumns) -> None:
        """Add a block. Raises BlockError, and adds none of its rows, if an address in it is invalid."""
        values = columns.values
        connections, is_same = self._connections(columns)
        is_frame = (values["kind"] <= Kind.RESPONSE) & (values["closing"] == Closing.NONE) & is_same
        is_change = _are_changes(columns) & is_same
        rows, changed, others = map(np.flatnonzero, (is_frame, is_change, ~(is_frame | is_change)))
        self._others += _records(columns, others)
        self._changes.append(
            ChangeColumns(
                connections[changed],
                *(values[name][changed] for name in _CHANGED),
            )
        )
        starts, ends = columns.offsets[rows], columns.offsets[rows + 1]
        self._frames.append(
            FrameColumns(
                connections=connections[rows],
                starts=starts.astype(np.int64) + self.size,
                lengths=(ends - starts).astype(np.int64),
                **{of_frames: values[name][rows] for name, of_frames in OF_FRAMES.items()},
            )
        )
        located = [np.vstack((np.full(len(each), block), each)) for each in (rows, changed, others)]
        self._places.append(tuple(located))
        self._data.append(columns.data)
        self.size += len(columns.data)
        self.rows += len(is_frame)

    def _connections(self, columns: BlockColumns) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the connection number of each row, and whether the row has its identity in the batch."""
        values, ids = columns.values, columns.ids
        used, first, inverse = _distinct(values["connection"], len(ids))
        if len(used) < len(ids):
            ids = [ids[code] for code in used.tolist()]
        # `map` keeps the loops over all connections of all blocks in C.
        identities = _identities(columns, used, first)
        numbers: list[Any] = list(map(self._numbers.get, ids))
        if None in numbers:
            for at, number in enumerate(numbers):
                if number is None:
                    # The dictionary of another writer may have a connection twice.
                    known = self._numbers.get(ids[at])
                    numbers[at] = self._open(ids[at], identities[at]) if known is None else known
        in_batch, are_same = list(map(self._identities.__getitem__, numbers)), np.ones(len(used), np.bool_)
        if in_batch != identities:
            are_same = np.fromiter(map(operator.eq, in_batch, identities), np.bool_)
        is_same = are_same[inverse]
        for name in ("run", *(name for name in SHARED if len(columns.names[name]) > 1)):
            is_same &= values[name] == values[name][first][inverse]
        return np.array(numbers, np.int32)[inverse], is_same

    def _open(self, connection: bytes, identity: _Identity) -> int:
        known = self.known.get(connection)
        if known is None or known[0] != identity:
            known = self.known[connection] = identity, _opening(connection, identity)
        number = self._numbers[connection] = len(self._openings)
        self._openings.append(known[1])
        self._identities.append(known[0])
        return number

    def opened(self) -> BlockBatch:
        columns = FrameColumns.joined(self._frames)
        events = Events(ChangeColumns.joined(self._changes), self._others, self._openings)
        batch = FrameBatch(np.concatenate(self._data), columns, events, self._openings)
        of_frames, of_changes, of_others = (np.hstack(each) for each in zip(*self._places, strict=True))
        of_events = np.hstack((of_changes, of_others))[:, events.order]
        blocks, rows = np.hstack((of_frames, of_events))
        return BlockBatch(batch, blocks, rows, self.refused, len(self._places) - 1 + len(self.refused))


def _are_changes(columns: BlockColumns) -> NDArray[np.bool_]:
    """Return which rows say that a connection opened or closed, and nothing else."""
    values = columns.values
    kinds, is_closing = values["kind"], values["closing"] != Closing.NONE
    is_opening = (kinds == Kind.OPENED) & ~is_closing & (values["direction"] == Direction.NONE)
    found: NDArray[np.bool_] = is_opening | (kinds == Kind.CLOSED) & is_closing
    found &= np.diff(columns.offsets) == 0
    for name, value in OF_CHANGES.items():
        found &= values[name] == value
    return found


def _distinct(codes: NDArray[Any], size: int) -> tuple[_Integers, _Integers, _Integers]:
    """`np.unique` with index and inverse, for codes below `size`, without sorting."""
    first = np.full(size, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    used = np.flatnonzero(first < len(codes))
    if len(used) == size:
        return used, first, codes.astype(np.int64)
    ranks = np.zeros(size, np.int64)
    ranks[used] = np.arange(len(used))
    return used, first[used], ranks[codes]


@functools.lru_cache(maxsize=1_000)
def _interned(shared: _Shared) -> _Shared:
    """Return one object for equal values: Python compares an object with itself at once."""
    return shared


def _identities(columns: BlockColumns, used: NDArray[Any], first: NDArray[Any]) -> list[_Identity]:
    """Return the identity of each used connection, which its first row states."""
    values, names = columns.values, columns.names
    runs = values["run"][first].tolist()
    if all(len(texts) == 1 for texts in names.values()) and len(set(runs)) == 1:
        shared: Iterable[_Shared] = itertools.repeat(
            _interned((names["server"][0], names["cluster"][0], names["feeder"][0], runs[0]))
        )
    else:
        texts = ([names[name][code] for code in values[name][first].tolist()] for name in SHARED)
        shared = map(_interned, zip(*texts, runs, strict=True))
    clients = columns.clients
    if len(used) < len(clients):
        clients = [clients[code] for code in used.tolist()]
    return list(zip(clients, shared, strict=False))


def _opening(connection: bytes, identity: _Identity) -> Record:
    client, (server, cluster, feeder, run) = identity
    return Record(
        kind=Kind.OPENED,
        connection=connection,
        run=run,
        sequence=0,
        captured_at=0,
        client=_endpoint(client),
        server=_endpoint(server),
        cluster=cluster,
        feeder=feeder,
    )


def _records(columns: BlockColumns, rows: _Integers) -> list[Record]:
    if not len(rows):
        return []
    values: dict[str, list[Any]] = {name: column[rows].tolist() for name, column in columns.values.items()}
    codes, names = values["connection"], columns.names
    values["connection"] = [columns.ids[code] for code in codes]
    values["client"] = [_endpoint(columns.clients[code]) for code in codes]
    values["server"] = [_endpoint(names["server"][code]) for code in values["server"]]
    for name in ("cluster", "feeder"):
        values[name] = [names[name][code] for code in values[name]]
    for name, members in _MEMBERS.items():
        values[name] = [members[number] for number in values[name]]
    ends = zip(columns.offsets[rows].tolist(), columns.offsets[rows + 1].tolist(), strict=True)
    values["frame"] = [columns.data[begin:end].tobytes() for begin, end in ends]
    return list(map(Record, *(values[name] for name in Record.__struct_fields__)))


@functools.lru_cache(maxsize=MOST_OPENINGS)
def _endpoint(text: str) -> Endpoint:
    """Parse an address and port. Raises BlockError for a text that `Endpoint.of` would not write."""
    host, _, port = text.rpartition(":")
    if not (_PORT.fullmatch(port) and int(port) in _PORTS and _is_host(host)):
        raise BlockError("a client or server that is no address and port")
    return Endpoint(text)


@functools.lru_cache(maxsize=MOST_OPENINGS)
def _is_host(text: str) -> bool:
    """Whether `Endpoint.of` writes such a host. Clients of few hosts open many connections."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return text == host_of(Endpoint.of(address.packed, 0))
