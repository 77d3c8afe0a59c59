"""The connections of a bucket: rows of fixed width that the automaton moves, and states that the judge reads.

A batch concerns few of the connections that a bucket holds, and the automaton moves most of these without
building them. So a connection is a row: the number of its facts, its progress and its registers. What
connections share stands once: facts, servers, requests in flight, texts. A connection that is read becomes a
state, and a row again when it is laid out.

A state without a canonical form has no facts. It is kept whole beside the rows, as are findings.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Hashable, Iterator, MutableMapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.columnar.block import ID_BYTES
from decoders.keyed_hash import HashKeys
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.columnar.open_addressing import free_slots, slot_of_row
from expectations.conversation.observation import ConnectionKey, Evidence
from expectations.conversation.progress import PROGRESS_NUMBERS, ApiVersion, InFlight, Progress
from expectations.judging.canonical import TEXTS, UUIDS, Filler, OddStateError
from expectations.judging.cells import INPUT, NUMBER, ROW, TEXT, UUID
from expectations.judging.facts import NO_CLIENT, Facts, canonical
from expectations.judging.judge import ConnectionState, OpenFinding
from streaming.state.contents import Contents

Server = tuple[str, str, int]
"""A cluster, a server's address, and a run of the feeder."""
InFlightCounts = tuple[tuple[ApiVersion, int], ...]
"""How many requests of each API version are in flight, in order."""
NOTHING_IN_FLIGHT: Final = 0
"""The place of no requests in the table of requests in flight."""
PROGRESS_COUNT: Final = len(PROGRESS_NUMBERS)
CAPTURED_AT: Final = PROGRESS_NUMBERS.index("captured_at")
SEQUENCE: Final = PROGRESS_NUMBERS.index("sequence")
_FIRST_NUMBER: Final = PROGRESS_COUNT
_FIRST_UUID: Final = PROGRESS_COUNT + UUID - NUMBER
FIRST_TEXT: Final = PROGRESS_COUNT + TEXT - NUMBER
"""The column of the first text register in `cells`."""
NOWHERE: Final = -1
"""The place of what is not there."""
_KEYS: Final = HashKeys.of(secrets.token_bytes())
"""A secret, so that nobody makes IDs that collide."""
_LEAST_SHARED: Final = 64
"""Shared values that are kept whether or not connections refer to them."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_STATE: Final = msgspec.msgpack.Decoder(ConnectionState)
_FINDINGS: Final = msgspec.msgpack.Decoder(dict[str, OpenFinding])
assert FIRST_TEXT + TEXTS == ROW == PROGRESS_COUNT + INPUT - NUMBER
_Integers = NDArray[np.int64]
Value = TypeVar("Value", bound=Hashable)


class Table(Generic[Value]):
    """Values that connections share, each once, by its place."""

    def __init__(self, values: list[Value]) -> None:
        self.values = values
        self._places: dict[Value, int] | None = None

    def place(self, value: Value) -> int:
        """Return the place of a value, a new one if it has none."""
        if self._places is None:
            self._places = {each: place for place, each in enumerate(self.values)}
        place = self._places.setdefault(value, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place

    def compacted(self, places: _Integers) -> _Integers:
        """Forget the values that no place refers to. Returns the places as they are then."""
        used, inverse = np.unique(places, return_inverse=True)
        self.values = [self.values[place] for place in used.tolist()]
        self._places = None
        return inverse.reshape(places.shape)


class Connections(MutableMapping[bytes, ConnectionState]):
    """The states of connections by their IDs. A state that was read may be changed in place.

    Row i belongs to the connection with `ids[i]`, as far as `is_stored[i]`. `cells` (int64) has the progress
    and the registers, `facts`, `server` and `in_flight` (int64) are places in tables. A text register is a
    place in `texts`, where place 0 is unused.
    """

    def __init__(self) -> None:
        self.ids = b""
        self.clients: list[str] = []
        self.cells: _Integers = np.empty((0, ROW), np.int64)
        self.facts: _Integers = np.empty(0, np.int64)
        self.server: _Integers = np.empty(0, np.int64)
        self.in_flight: _Integers = np.empty(0, np.int64)
        self.has_findings: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.is_stored: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.facts_table: Table[Facts] = Table([])
        self.servers: Table[Server] = Table([])
        self.in_flight_table: Table[InFlightCounts] = Table([()])
        self.texts: Table[str | Evidence] = Table([""])
        self.contents = Contents()
        self._read: dict[bytes, ConnectionState] = {}
        self._places: dict[bytes, int] | None = None

    def __getitem__(self, connection: bytes) -> ConnectionState:
        state = self._read.get(connection)
        if state is None:
            place = self.place(connection)
            if place == NOWHERE:
                raise KeyError(connection)
            state = self._read[connection] = self._state(connection, place)
            self.is_stored[place] = False
        return state

    def __setitem__(self, connection: bytes, state: ConnectionState) -> None:
        self._forget(connection)
        self._read[connection] = state

    def __delitem__(self, connection: bytes) -> None:
        if not self._forget(connection) and connection not in self._read:
            raise KeyError(connection)
        self._read.pop(connection, None)

    def __iter__(self) -> Iterator[bytes]:
        # A caller reads stored connections while it iterates.
        yield from [*map(self.id_at, np.flatnonzero(self.is_stored).tolist()), *self._read]

    def __len__(self) -> int:
        return len(self._read) + int(self.is_stored.sum())

    def place(self, connection: bytes) -> int:
        """Return the row of a connection that is stored and was not read yet, else NOWHERE."""
        if self._places is None:
            ids = np.frombuffer(self.ids, f"V{ID_BYTES}").tolist()
            self._places = {ids[place]: place for place in np.flatnonzero(self.is_stored).tolist()}
        place = self._places.get(connection, NOWHERE)
        return place if place != NOWHERE and self.is_stored[place] else NOWHERE

    def places(self, ids: bytes) -> _Integers:
        """Return the rows of connections, given their IDs one after the other, NOWHERE for those without.

        Those that were read become rows.
        """
        if self._read:
            wanted = np.frombuffer(ids, f"V{ID_BYTES}").tolist()
            self._lay_out([connection for connection in wanted if connection in self._read])
        return places_of(ids, self.ids, self.is_stored)

    def remove(self, places: _Integers) -> None:
        """Remove the connections in rows."""
        for place in places[self._has_content(places)].tolist():
            self.contents.forget(self.id_at(place))
        self.is_stored[places] = False

    def latest_sequence(self, connection: bytes) -> int:
        """Return the latest sequence of a connection, 0 if it is unknown, without reading it."""
        if connection in self._read:
            return self[connection].conversation.progress.sequence
        place = self.place(connection)
        return 0 if place == NOWHERE else int(self.cells[place, SEQUENCE])

    def drop_silent(self, since: int) -> None:
        """Remove the connections whose latest record was captured before `since`, in nanoseconds."""
        self.remove(np.flatnonzero(self.is_stored & (self.cells[:, CAPTURED_AT] < since)))
        for connection in list(self._read):
            if self[connection].conversation.progress.captured_at < since:
                del self._read[connection]

    def by_software(self) -> Counter[tuple[SoftwareClaim | None, str]]:
        """Count the open connections by client software, None if it is unknown, and server."""
        both = self.facts[self.is_stored] << 32 | self.server[self.is_stored]
        places, counts = np.unique(both, return_counts=True)
        found: Counter[tuple[SoftwareClaim | None, str]] = Counter()
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            facts, server = self.facts_table.values[place >> 32], self.servers.values[place & 0xFFFFFFFF]
            found[facts.software, server[1]] += count
        for state in self._read.values():
            found[state.conversation.software, state.conversation.server] += 1
        return found

    def add(
        self, keys: Sequence[ConnectionKey], cells: _Integers, facts: _Integers, in_flight: _Integers
    ) -> None:
        """Add rows of connections that are not there yet."""
        count = len(keys)
        servers = [self.servers.place((key.cluster, key.server, key.run)) for key in keys]
        if self._places is not None:
            self._places |= {key.id: len(self.facts) + at for at, key in enumerate(keys)}
        self.ids += b"".join(key.id for key in keys)
        self.clients += [key.client for key in keys]
        self.cells = np.concatenate((self.cells, cells))
        self.facts = np.concatenate((self.facts, facts))
        self.server = np.concatenate((self.server, np.array(servers, np.int64)))
        self.in_flight = np.concatenate((self.in_flight, in_flight))
        self.has_findings = np.concatenate((self.has_findings, np.zeros(count, np.bool_)))
        self.is_stored = np.concatenate((self.is_stored, np.ones(count, np.bool_)))

    def move(self, places: _Integers, cells: _Integers, facts: _Integers, in_flight: _Integers) -> None:
        """Replace rows."""
        self.cells[places], self.facts[places], self.in_flight[places] = cells, facts, in_flight

    def in_flight_at(self, place: int) -> InFlight:
        """Return the requests in flight at a place of their table."""
        return InFlight(dict(self.in_flight_table.values[place]))

    def lay_out(self) -> None:
        """Make rows of all connections that were read, and forget what nothing refers to any more."""
        self._lay_out(list(self._read))
        if self.is_stored.all() and not self._is_wasteful():
            return
        kept = np.flatnonzero(self.is_stored)
        self.ids = np.frombuffer(self.ids, f"V{ID_BYTES}")[kept].tobytes()
        self.clients = [self.clients[place] for place in kept.tolist()]
        self.cells, self.has_findings = self.cells[kept], self.has_findings[kept]
        self.facts = self.facts_table.compacted(self.facts[kept])
        self.server = self.servers.compacted(self.server[kept])
        # Place 0 stays in front, even if no row refers to it.
        in_flight = np.append(self.in_flight[kept], NOTHING_IN_FLIGHT)
        self.in_flight = self.in_flight_table.compacted(in_flight)[:-1]
        texts = np.append(self.cells[:, FIRST_TEXT:].ravel(), 0)
        self.cells[:, FIRST_TEXT:] = self.texts.compacted(texts)[:-1].reshape(-1, TEXTS)
        self.is_stored = np.ones(len(kept), np.bool_)
        self._places = None

    def _is_wasteful(self) -> bool:
        tables = self.facts_table, self.servers, self.in_flight_table, self.texts
        return sum(len(table.values) for table in tables) > _LEAST_SHARED + 4 * len(tables) * len(self.facts)

    def _lay_out(self, connections: Sequence[bytes]) -> None:
        states = [self._read.pop(connection) for connection in connections]
        if not states:
            return
        keys = [_key(state) for state in states]
        rows = [self._row(state) for state in states]
        first = len(self.facts)
        cells = np.array([cells for cells, _, _ in rows], np.int64)
        facts, in_flight = (np.array([row[at] for row in rows], np.int64) for at in (1, 2))
        self.add(keys, cells, facts, in_flight)
        for place, state in enumerate(states, first):
            if not self.facts_table.values[self.facts[place]].packed:
                self.contents.keep(state.conversation.connection, _ENCODER.encode(state))
            elif state.findings:
                self.contents.keep(state.conversation.connection, _ENCODER.encode(state.findings))
                self.has_findings[place] = True

    def _row(self, state: ConnectionState) -> tuple[list[int], int, int]:
        """Return the cells of a state, its facts and its requests in flight."""
        conversation = state.conversation
        progress = conversation.progress
        in_flight = self.in_flight_table.place(tuple(sorted(progress.in_flight.counts.items())))
        try:
            facts, registers = canonical(state)
        except OddStateError:
            client = conversation.client_id
            texts = [self.texts.place(client)] if client else []
            facts = Facts(b"", conversation.software, 0 if client else NO_CLIENT)
            registers_of = [0] * (_FIRST_UUID - _FIRST_NUMBER + 2 * UUIDS)
        else:
            halves = np.frombuffer(b"".join(registers.uuids), np.int64).tolist()
            registers_of = _padded(registers.numbers, UUID - NUMBER) + _padded(halves, 2 * UUIDS)
            texts = [self.texts.place(text) for text in registers.texts]
        cells = [*progress.numbers(), *registers_of, *_padded(texts, TEXTS)]
        return cells, self.facts_table.place(facts), in_flight

    def _state(self, connection: bytes, place: int) -> ConnectionState:
        facts = self.facts_table.values[self.facts[place]]
        if not facts.packed:
            return _STATE.decode(self.contents.take(connection))
        cluster, server, run = self.servers.values[self.server[place]]
        key = ConnectionKey(connection, cluster, self.clients[place], server, run)
        state = self.built(key, self.cells[place], facts, int(self.in_flight[place]))
        if self.has_findings[place]:
            state.findings = _FINDINGS.decode(self.contents.take(connection))
        return state

    def built(
        self, key: ConnectionKey, cells: _Integers, facts: Facts, in_flight: int = 0
    ) -> ConnectionState:
        """Build a state from cells and facts, without findings."""
        row: list[int] = cells.tolist()
        halves = cells[_FIRST_UUID:FIRST_TEXT].tobytes()
        filler = Filler(
            row[_FIRST_NUMBER:_FIRST_UUID],
            [halves[at : at + ID_BYTES] for at in range(0, len(halves), ID_BYTES)],
            [self.texts.values[text] for text in row[FIRST_TEXT:]],
        )
        requests = self.in_flight_at(in_flight)
        return facts.state(
            filler, key, lambda name: Progress.of_numbers(row[:PROGRESS_COUNT], name, requests)
        )

    def _has_content(self, places: _Integers) -> NDArray[np.bool_]:
        odd = np.array([not facts.packed for facts in self.facts_table.values], np.bool_)
        has_content: NDArray[np.bool_] = self.has_findings[places] | odd[self.facts[places]]
        return has_content

    def id_at(self, place: int) -> bytes:
        """Return the ID of the connection in a row."""
        return self.ids[place * ID_BYTES : (place + 1) * ID_BYTES]

    def _forget(self, connection: bytes) -> bool:
        place = self.place(connection)
        if place != NOWHERE:
            self.remove(np.array([place]))
        return place != NOWHERE


def _padded(values: Sequence[int], size: int) -> list[int]:
    return [*values, *[0] * (size - len(values))]


def _key(state: ConnectionState) -> ConnectionKey:
    conversation = state.conversation
    where = conversation.cluster, conversation.client, conversation.server, conversation.run
    return ConnectionKey(conversation.connection, *where)


def places_of(wanted: bytes, stored: bytes, is_stored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each ID of 16 bytes among the stored ones, as far as `is_stored` is set.

    NOWHERE is the place of those that are not stored, and of those that are wanted more than once.
    """
    halves, among = (np.frombuffer(ids, np.int64).reshape(-1, 2) for ids in (wanted, stored))
    places = np.full(len(halves), NOWHERE, np.int64)
    slots = free_slots(len(halves))
    _find(halves, among, is_stored, _KEYS, slots, np.zeros(len(halves), np.bool_), places)
    return places


@compiled(None)
def _find(  # noqa: PLR0917 - compiled functions are called by position
    wanted: Any, stored: Any, is_stored: Any, keys: Any, slots: Any, is_double: Any, places: Any
) -> None:
    for number in range(len(wanted) + len(stored)):
        is_wanted = number < len(wanted)
        at = number if is_wanted else number - len(wanted)
        if not is_wanted and not is_stored[at]:
            continue
        first, second = (wanted[at, 0], wanted[at, 1]) if is_wanted else (stored[at, 0], stored[at, 1])
        slot = slot_of_row(wanted, slots, keys, (first, second))
        other = slots[slot]
        if is_wanted and other < 0:
            slots[slot] = at
        elif is_wanted:
            is_double[other] = True
        elif other >= 0 and not is_double[other]:
            places[other] = at
