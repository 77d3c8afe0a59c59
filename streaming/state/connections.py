"""The connections of a bucket: rows of fixed width that the automaton moves.

A batch concerns few of the connections that a bucket holds, and the automaton moves most of these without
building them. So a connection is a row: the numbers of its facts, its server and its requests in flight,
whether it has findings, its progress and its registers (`expectations/judging/cells.py`). What connections
share is stored once. For the judge a connection is taken out, as a state, and put back.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.columnar.block import ID_BYTES
from decoders.keyed_hash import HashKeys
from decoders.open_addressing import free_slots, slot_of_row
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.columnar.statement_columns import Numbered
from expectations.conversation.observation import ConnectionKey, Evidence
from expectations.conversation.progress import PROGRESS_NUMBERS, ApiVersion, InFlight, Progress
from expectations.judging.canonical import TEXTS, UUIDS, OddStateError, filler
from expectations.judging.cells import (
    FACTS,
    HAS_FINDINGS,
    IN_FLIGHT,
    NUMBER,
    PROGRESS,
    ROW,
    SERVER,
    TEXT,
    UUID,
)
from expectations.judging.facts import NO_CLIENT, Facts, canonical
from expectations.judging.judge import ConnectionState, OpenFinding
from streaming.state.packing import compress, decompress, whole

Server = tuple[str, str, int]
"""A cluster, a server's address, and a run of the feeder."""
InFlightCounts = tuple[tuple[ApiVersion, int], ...]
"""How many requests of each API version are in flight, by version. Number 0 of their table: none at all."""
CAPTURED_AT: Final = PROGRESS + PROGRESS_NUMBERS.index("captured_at")
SEQUENCE: Final = PROGRESS + PROGRESS_NUMBERS.index("sequence")
NOWHERE: Final = -1
"""The place of what is not there."""
KEYS: Final = HashKeys.of(secrets.token_bytes())
"""A secret, so that nobody makes IDs that collide."""
_LEAST_SHARED: Final = 64
"""Shared values that are kept whether or not connections refer to them."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_STATE: Final = msgspec.msgpack.Decoder(ConnectionState)
_FINDINGS: Final = msgspec.msgpack.Decoder(dict[str, OpenFinding])
_CONTENTS: Final = msgspec.msgpack.Decoder(dict[bytes, bytes])
_Integers = NDArray[np.int64]
Value = TypeVar("Value", bound=Hashable)


class Table(Numbered[Value]):
    """Values that connections share, each once, by number."""

    def compacted(self, numbers: _Integers) -> tuple[Table[Value], _Integers]:
        """Return a table of the values that some numbers refer to, and their numbers in that."""
        used, inverse = np.unique(numbers, return_inverse=True)
        return Table(self.values[number] for number in used.tolist()), inverse.reshape(numbers.shape)


class Contents:
    """What is kept of some connections beside their rows: findings, and states without a canonical form.

    It is a value of its own in the state store, fetched by `read` when such a connection is first read, and
    written when one changes. `size` is its stored size. A state without a canonical form has no facts.
    """

    def __init__(self, size: int = 0, read: Callable[[], bytes | None] = lambda: None) -> None:
        self.size = size
        self._read = read
        self._has_changed = False

    def keep(self, connection: bytes, content: bytes) -> None:
        """Keep the content of a connection."""
        self._opened[connection] = content
        self._has_changed = True

    def take(self, connection: bytes) -> bytes:
        """Return the content of a connection, and forget it. Raises StateError if it cannot be read."""
        self._has_changed = True
        return self._opened.pop(connection)

    def packed(self) -> bytes | None:
        """Return all contents for the state store, None if they have not changed."""
        if not self._has_changed:
            return None
        packed = compress(_ENCODER.encode(self._opened)) if self._opened else b""
        self.size = len(packed)
        return packed

    @cached_property
    def _opened(self) -> dict[bytes, bytes]:
        packed = whole(self._read(), self.size, "connections")
        return _CONTENTS.decode(decompress(packed)) if packed else {}


class Connections:
    """The connections of a bucket.

    Row i of `rows` (int64) is that of the connection with the ID at 16 * i of `ids`, if `is_stored[i]`.
    Facts, server and requests in flight are numbers in tables. A text register is a number in `texts`, where
    number 0 is unused.
    """

    def __init__(self) -> None:
        self.ids = b""
        self.clients: list[str] = []
        self.rows: _Integers = np.empty((0, ROW), np.int64)
        self.is_stored: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.facts: Table[Facts] = Table([])
        self.servers: Table[Server] = Table([])
        self.in_flight: Table[InFlightCounts] = Table([()])
        self.texts: Table[str | Evidence] = Table([""])
        self.contents = Contents()

    def __len__(self) -> int:
        return int(self.is_stored.sum())

    def id_at(self, place: int) -> bytes:
        """Return the ID of the connection in a row."""
        return self.ids[place * ID_BYTES : (place + 1) * ID_BYTES]

    def places(self, ids: bytes) -> _Integers:
        """Return the row of each ID (IDs are concatenated); NOWHERE if it has none."""
        return places_of(ids, self.ids, self.is_stored)

    def stored_places(self) -> list[int]:
        """Return the rows that hold a connection."""
        places: list[int] = np.flatnonzero(self.is_stored).tolist()
        return places

    def without_findings(self) -> _Integers:
        """Return the rows that hold a connection without findings."""
        return np.flatnonzero(self.is_stored & (self.rows[:, HAS_FINDINGS] == 0))

    def take(self, place: int) -> ConnectionState:
        """Take the connection in a row out, and return its state."""
        self.is_stored[place] = False
        connection, row = self.id_at(place), self.rows[place]
        facts = self.facts.values[row[FACTS]]
        if not facts.packed:
            return _STATE.decode(self.contents.take(connection))
        cluster, server, run = self.servers.values[row[SERVER]]
        key = ConnectionKey(connection, cluster, self.clients[place], server, run)
        state = self.built(key, row, facts, self.in_flight_at(int(row[IN_FLIGHT])))
        if row[HAS_FINDINGS]:
            state.findings = _FINDINGS.decode(self.contents.take(connection))
        return state

    def put(self, states: Sequence[ConnectionState]) -> None:
        """Put connections in, which must not be there."""
        rows = np.array([self._row(state) for state in states], np.int64)
        conversations = [state.conversation for state in states]
        ids = b"".join(conversation.connection for conversation in conversations)
        self.add(ids, [conversation.client for conversation in conversations], rows)
        for state, row in zip(states, rows, strict=True):
            connection = state.conversation.connection
            if not self.facts.values[row[FACTS]].packed:
                self.contents.keep(connection, _ENCODER.encode(state))
            elif row[HAS_FINDINGS]:
                self.contents.keep(connection, _ENCODER.encode(state.findings))

    def add(self, ids: bytes, clients: list[str], rows: _Integers) -> None:
        """Add rows of connections that are not there."""
        if not clients:
            return
        self.ids += ids
        self.clients += clients
        self.rows = np.concatenate((self.rows, rows))
        self.is_stored = np.concatenate((self.is_stored, np.ones(len(rows), np.bool_)))

    def remove(self, places: _Integers) -> None:
        """Remove the connections in rows."""
        odd = np.array([not facts.packed for facts in self.facts.values], np.bool_)
        rows = self.rows[places]
        for place in places[(rows[:, HAS_FINDINGS] != 0) | odd[rows[:, FACTS]]].tolist():
            self.contents.take(self.id_at(place))
        self.is_stored[places] = False

    def drop_silent(self, since: int) -> None:
        """Remove the connections whose latest record was captured before `since`, in nanoseconds."""
        self.remove(np.flatnonzero(self.is_stored & (self.rows[:, CAPTURED_AT] < since)))

    def by_software(self) -> Counter[tuple[SoftwareClaim | None, str]]:
        """Count the open connections by client software, None if it is unknown, and server."""
        both = self.rows[self.is_stored, FACTS] << 32 | self.rows[self.is_stored, SERVER]
        numbers, counts = np.unique(both, return_counts=True)
        found: Counter[tuple[SoftwareClaim | None, str]] = Counter()
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            facts, server = self.facts.values[number >> 32], self.servers.values[number & 0xFFFFFFFF]
            found[facts.software, server[1]] += count
        return found

    def in_flight_at(self, number: int) -> InFlight:
        """Return the requests in flight with a number in their table."""
        return InFlight(dict(self.in_flight.values[number]))

    def compact(self) -> None:
        """Forget rows without a connection, and what nothing refers to any more."""
        if self.is_stored.all() and not self._is_wasteful():
            return
        kept = self.stored_places()
        self.ids = np.frombuffer(self.ids, f"V{ID_BYTES}")[kept].tobytes()
        self.clients = [self.clients[place] for place in kept]
        rows = self.rows = self.rows[kept]
        self.facts, rows[:, FACTS] = self.facts.compacted(rows[:, FACTS])
        self.servers, rows[:, SERVER] = self.servers.compacted(rows[:, SERVER])
        # Number 0 of these stays, even if no row refers to it.
        self.in_flight, in_flight = self.in_flight.compacted(np.append(rows[:, IN_FLIGHT], 0))
        self.texts, texts = self.texts.compacted(np.append(rows[:, TEXT:].ravel(), 0))
        rows[:, IN_FLIGHT], rows[:, TEXT:] = in_flight[:-1], texts[:-1].reshape(-1, TEXTS)
        self.is_stored = np.ones(len(kept), np.bool_)

    def _is_wasteful(self) -> bool:
        shared = len(self.facts) + len(self.servers) + len(self.in_flight) + len(self.texts)
        return shared > _LEAST_SHARED + 16 * len(self.rows)

    def _row(self, state: ConnectionState) -> list[int]:
        conversation, numbers, halves = state.conversation, list[int](), list[int]()
        progress = conversation.progress
        try:
            facts, registers = canonical(state)
        except OddStateError:
            client = conversation.client_id
            texts = [self.texts.number(client)] if client else []
            facts = Facts(b"", conversation.software, 0 if client else NO_CLIENT)
        else:
            numbers = registers.numbers
            halves = np.frombuffer(b"".join(registers.uuids), np.int64).tolist()
            texts = [self.texts.number(text) for text in registers.texts]
        return [
            self.facts.number(facts),
            self.servers.number((conversation.cluster, conversation.server, conversation.run)),
            self.in_flight.number(tuple(sorted(progress.in_flight.counts.items()))),
            bool(facts.packed and state.findings),
            *progress.numbers(),
            *_padded(numbers, UUID - NUMBER),
            *_padded(halves, 2 * UUIDS),
            *_padded(texts, TEXTS),
        ]

    def built(
        self, key: ConnectionKey, row: _Integers, facts: Facts, in_flight: InFlight | None = None
    ) -> ConnectionState:
        """Build a state from a row and its facts, without findings."""
        halves = row[UUID:TEXT].tobytes()
        uuids = [halves[at : at + ID_BYTES] for at in range(0, len(halves), ID_BYTES)]
        texts = [self.texts.values[text] for text in row[TEXT:].tolist()]
        numbers = row[PROGRESS:NUMBER].tolist()
        return facts.state(
            filler(row[NUMBER:UUID].tolist(), uuids, texts),
            key,
            lambda name: Progress.of_numbers(numbers, name, in_flight or InFlight()),
        )


def _padded(values: Sequence[int], size: int) -> list[int]:
    return [*values, *[0] * (size - len(values))]


def places_of(wanted: bytes, stored: bytes, is_stored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each ID of 16 bytes among the stored ones, NOWHERE for those that are not stored.

    All IDs are distinct, those that are wanted and those for which `is_stored` is set.
    """
    halves, among = (np.frombuffer(ids, np.int64).reshape(-1, 2) for ids in (wanted, stored))
    places = np.full(len(halves), NOWHERE, np.int64)
    _find(halves, among, is_stored, KEYS, free_slots(len(halves)), places)
    return places


@compiled(None)
def _find(  # noqa: PLR0917 - compiled functions are called by position
    wanted: Any, stored: Any, is_stored: Any, keys: Any, slots: Any, places: Any
) -> None:
    for at in range(len(wanted)):
        slots[slot_of_row(wanted, slots, keys, (wanted[at, 0], wanted[at, 1]))] = at
    for at in range(len(stored)):
        if is_stored[at]:
            number = slots[slot_of_row(wanted, slots, keys, (stored[at, 0], stored[at, 1]))]
            if number >= 0:
                places[number] = at
