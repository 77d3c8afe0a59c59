"""Blocks → batches of frames, as columns."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from decoders.frame.columnar.block import (
    OF_FRAMES,
    BlockError,
)
from decoders.frame.columnar.block_columns import SHARED, BlockColumns, read_columns
from decoders.frame.record import (
    Closing,
    Direction,
    Endpoint,
    Flag,
    Kind,
    Pairing,
    Record,
)
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch, FrameColumns

MOST_OPENINGS: Final = 100_000
"""How many identities of connections a reader remembers."""
MOST_ROWS: Final = 500_000
MOST_BYTES: Final = 128 * 1024 * 1024
"""From how many rows or bytes of frames on a batch is complete, so that its size is bounded."""
_PORTS: Final = range(1 << 16)
_FIELDS: Final = tuple(each.name for each in fields(Record))
_MEMBERS: Final[dict[str, Mapping[int, object]]] = {
    "kind": {int(each): each for each in Kind},
    "direction": {int(each): each for each in Direction},
    "pairing": {int(each): each for each in Pairing},
    "closing": {int(each): each for each in Closing},
    "flags": {number: Flag(number) for number in range(1 << 8)},
}
"""What numbers of a column mean: to ask a dictionary is faster than to ask the enumeration."""
_Integers = NDArray[np.int64]
_Shared = tuple[str, str, str, int]
"""Server, cluster, feeder and run."""
_Identity = tuple[str, _Shared]
"""The client, and what it shares with others."""


class Opened(NamedTuple):
    """Blocks as one batch. Every record that is not an ordinary request or response is an event.

    `blocks` and `rows` (int64) give the number of the block, among those read, and the row in it of each
    record: of the frames, then of the events. `refused` has a line for each number that was no block, and
    `size` counts the numbers, blocks or not.
    """

    batch: FrameBatch
    blocks: _Integers
    rows: _Integers
    refused: dict[int, str]
    size: int


class BlockReader:
    """Reads blocks. It remembers connections from one call to the next. Not for several threads at once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[_Identity, Record]] = {}

    def read(self, values: Iterable[pa.Buffer | bytes | None], enough: int = MOST_ROWS) -> Iterator[Opened]:
        """Read the values of topic records. Yields batches of at least `enough` rows; the last may be empty.

        A batch of MOST_BYTES has enough, too. Values that are no block are refused; that raises nothing.
        """
        gathering = self._gathering()
        for number, value in enumerate(values):
            if gathering.rows >= enough or gathering.size >= MOST_BYTES:
                yield gathering.opened()
                gathering = self._gathering()
            try:
                gathering.add(number, read_columns(value or b""))
            except BlockError as error:
                gathering.refused[number] = str(error)
        yield gathering.opened()

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
    """Blocks that become one batch. `rows` counts what they hold, `size` its bytes."""

    known: dict[bytes, tuple[_Identity, Record]]
    rows: int = 0
    size: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    _openings: list[Record] = field(default_factory=list)
    _identities: list[_Identity] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _frames: list[FrameColumns] = field(default_factory=lambda: [FrameColumns.empty(0)])
    _data: list[NDArray[np.uint8]] = field(default_factory=lambda: [np.empty(0, np.uint8)])
    _events: list[Record] = field(default_factory=list)
    _places: list[tuple[int, _Integers]] = field(default_factory=list)
    _event_places: list[tuple[int, int]] = field(default_factory=list)

    def add(self, block: int, columns: BlockColumns) -> None:
        """Add a block. Raises BlockError, and adds none of its rows, if an address in it is invalid."""
        values = columns.values
        connections, is_told = self._connections(columns)
        is_frame = (values["kind"] <= Kind.RESPONSE) & (values["closing"] == Closing.NONE) & is_told
        rows, others = np.flatnonzero(is_frame), np.flatnonzero(~is_frame)
        self._events += _records(columns, others)
        self._event_places += [(block, row) for row in others.tolist()]
        starts, ends = columns.offsets[rows], columns.offsets[rows + 1]
        self._frames.append(
            FrameColumns(
                connections=connections[rows],
                starts=starts.astype(np.int64) + self.size,
                lengths=(ends - starts).astype(np.int64),
                **{of_frames: values[name][rows] for name, of_frames in OF_FRAMES.items()},
            )
        )
        self._places.append((block, rows))
        self._data.append(columns.data)
        self.size += len(columns.data)
        self.rows += len(is_frame)

    def _connections(self, columns: BlockColumns) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Number the connections of rows; tell which rows have the identity that the batch has of theirs."""
        values, ids = columns.values, columns.ids
        used, first, places = _distinct(values["connection"], len(ids))
        if len(used) < len(ids):
            ids = [ids[code] for code in used.tolist()]
        # What is done for each connection of each block is left to loops in C.
        identities = _identities(columns, used, first)
        numbers: list[Any] = list(map(self._numbers.get, ids))
        if None in numbers:
            for at, number in enumerate(numbers):
                if number is None:
                    # A dictionary that a stranger wrote may name one connection twice.
                    known = self._numbers.get(ids[at])
                    numbers[at] = self._open(ids[at], identities[at]) if known is None else known
        told, is_told = list(map(self._identities.__getitem__, numbers)), np.ones(len(used), np.bool_)
        if told != identities:
            is_told = np.fromiter(map(operator.eq, told, identities), np.bool_)
        is_same = is_told[places]
        for name in ("run", *(name for name in SHARED if len(columns.names[name]) > 1)):
            is_same &= values[name] == values[name][first][places]
        return np.array(numbers, np.int32)[places], is_same

    def _open(self, connection: bytes, identity: _Identity) -> int:
        known = self.known.get(connection)
        if known is None or known[0] != identity:
            known = self.known[connection] = identity, _opening(connection, identity)
        number = self._numbers[connection] = len(self._openings)
        self._openings.append(known[1])
        self._identities.append(known[0])
        return number

    def opened(self) -> Opened:
        """Return the blocks as a batch."""
        columns = FrameColumns(*map(np.concatenate, zip(*self._frames, strict=True)))
        batch = FrameBatch(np.concatenate(self._data), columns, Events.of(self._events), self._openings)
        blocks = [np.full(len(rows), block, np.int64) for block, rows in self._places]
        rows = [rows for _, rows in self._places]
        of_events = np.array(self._event_places, np.int64).reshape(len(self._events), 2)
        return Opened(
            batch,
            np.concatenate([*blocks, of_events[:, 0]]),
            np.concatenate([*rows, of_events[:, 1]]),
            self.refused,
            len(self._places) + len(self.refused),
        )


def _distinct(codes: NDArray[Any], size: int) -> tuple[_Integers, _Integers, _Integers]:
    """Return the codes below `size` that are used, the first place of each, and which of them stand where.

    The same as `np.unique`, without sorting.
    """
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
    """Return one object for equal values: comparing it with itself is quick."""
    return shared


def _identities(columns: BlockColumns, used: NDArray[Any], first: NDArray[Any]) -> list[_Identity]:
    """Return the identity of each connection, as its first row tells it."""
    values, names = columns.values, columns.names
    told = [values[name][first] for name in (*SHARED, "run")]
    if all(len(texts) == 1 for texts in names.values()) and len(set(told[-1].tolist())) == 1:
        shared: Iterable[_Shared] = itertools.repeat(
            _interned((names["server"][0], names["cluster"][0], names["feeder"][0], int(told[-1][0])))
        )
    else:
        texts = (
            [names[name][code] for code in codes.tolist()] for name, codes in zip(SHARED, told, strict=False)
        )
        shared = map(_interned, zip(*texts, told[-1].tolist(), strict=True))
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
    """Return rows as records."""
    if not len(rows):
        return []
    told: dict[str, list[Any]] = {name: values[rows].tolist() for name, values in columns.values.items()}
    spoken, names = told["connection"], columns.names
    told["connection"] = [columns.ids[code] for code in spoken]
    told["client"] = [_endpoint(columns.clients[code]) for code in spoken]
    told["server"] = [_endpoint(names["server"][code]) for code in told["server"]]
    for name in ("cluster", "feeder"):
        told[name] = [names[name][code] for code in told[name]]
    for name, members in _MEMBERS.items():
        told[name] = [members[number] for number in told[name]]
    ends = zip(columns.offsets[rows].tolist(), columns.offsets[rows + 1].tolist(), strict=True)
    told["frame"] = [columns.data[begin:end].tobytes() for begin, end in ends]
    return list(map(Record, *(told[name] for name in _FIELDS)))


@functools.lru_cache(maxsize=MOST_OPENINGS)
def _endpoint(text: str) -> Endpoint:
    """Return an address and port that a block names. Raises BlockError if it is written in another way."""
    host, _, port = text.rpartition(":")
    try:
        number, address = int(port), ipaddress.ip_address(host.strip("[]"))
        if number in _PORTS and text == Endpoint.of(address.packed, number):
            return Endpoint(text)
    except ValueError:
        pass
    raise BlockError("a client or server that is no address and port")
