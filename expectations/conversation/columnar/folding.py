"""Folding: equal statements of a connection become one occurrence with a count, on columns.

Steady traffic repeats the same API, version, header and identifiers. Rules need the first occurrence of a
statement and how often it came back. Folding changes no verdict, at any size of the window:

- The first occurrence of a statement, in this window or as far as earlier ones are remembered, stays alone,
  so that "the first request" and "the first offence" keep their own sequence.
- Repeats are gathered until something new is said. A first occurrence, or an observation with a body, a
  failure or an event, may change the facts by which later repeats are judged, so it starts a new gathering.
- Heartbeats are gathered while each is answered before the next and equals the one before it, since the
  verdict on a heartbeat depends on the previous one.
- A request is gathered only if its response is in the window too, or none is expected, and a response only
  with responses to the same gathering. A rule that waits for the response to a request therefore finds it, in
  this window or a later one: `paired_sequence` is then the first sequence of the gathering.
- Records that come again, from a source that is read twice, are dropped.

A repeat changes no fact. It only adds to counts.

`SaidBefore` is what earlier batches said. It may be cleared at any time: a statement that was forgotten
stands alone once more. Tests compare all this with folding by objects, observation by observation.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.frame.record import Kind, Pairing
from decoders.keyed_hash import HashKeys, first_slot, hashed
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS, JOINING
from expectations.conversation.bodies import (
    Body,
    ClusterDescription,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
)
from expectations.conversation.observation import Statement

NOT_FOLDABLE: Final = -1
NOT_DESCRIBED: Final = 0
NO_HEARTBEAT: Final = 0
HIDDEN_HEARTBEAT: Final = -1
_REQUEST: Final = int(Kind.REQUEST)
_MATCHED: Final = int(Pairing.MATCHED)
SLOTS: Final = 1 << 20
CAPACITY: Final = SLOTS // 2
"""Pairs of connection and statement that are kept; the table is cleared when it is full."""
_SEQUENCE: Final = 3


class Rows(NamedTuple):
    """One row per record, in the order of arrival.

    `connections` (int64) are numbers from 0. `described` (int64) numbers a broker's description of itself, or
    is NOT_DESCRIBED. `heartbeats` (int64) numbers the body of a heartbeat or its response, or is
    NO_HEARTBEAT, or HIDDEN_HEARTBEAT where one may be hidden. `statements` (int64) are numbers of the batch,
    NOT_FOLDABLE where a repeat is not gathered; equal `fingerprints` (int64) mean equal statements of any
    batch. Sequences are int64, `kinds` and `pairings` uint8, `expects_response` bool. `sizes` (int64) are
    lengths on the wire.
    """

    connections: NDArray[np.int64]
    sequences: NDArray[np.int64]
    paired_sequences: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    pairings: NDArray[np.uint8]
    expects_response: NDArray[np.bool_]
    statements: NDArray[np.int64]
    fingerprints: NDArray[np.int64]
    described: NDArray[np.int64]
    heartbeats: NDArray[np.int64]
    sizes: NDArray[np.int64]


class Folded(NamedTuple):
    """One element per folded observation, by connection and in order: its first and last row, and its count.

    `previous` is the last row but one, -1 if there is only one. `paired_sequences` are those after folding,
    `sizes` the sums of all rows. All are int64.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    previous: NDArray[np.int64]
    counts: NDArray[np.int64]
    paired_sequences: NDArray[np.int64]
    sizes: NDArray[np.int64]


def is_foldable(statement: Statement) -> bool:
    """Whether repeats of a statement can be gathered."""
    is_request = statement.kind is Kind.REQUEST and not statement.is_matched
    if not is_request and statement.kind is not Kind.RESPONSE:
        return False
    if statement.failure is not None or statement.oddity is not None:
        return False
    return statement.api_key != API_VERSIONS and _may_repeat(statement.body)


def _may_repeat(body: Body | None) -> bool:
    """Whether a repeated body changes no fact. A member leaves once, so a leaving heartbeat does."""
    if isinstance(body, Heartbeat):
        return (body.member_epoch or 0) >= JOINING
    return body is None or isinstance(body, ClusterDescription | HeartbeatResponse | MemberRequest)


def may_hide_heartbeat(statement: Statement) -> bool:
    """Whether this is a heartbeat that was not read or changes facts, or an event that may hide one."""
    is_unread = statement.body is None and statement.api_key in HEARTBEAT_APIS
    return is_unread or not is_foldable(statement)


class SaidBefore(NamedTuple):
    """The statements that connections made in earlier batches: a table with open addressing.

    `slots` (int64, 4 columns): the connection's ID in two halves, the statement's fingerprint, and the
    sequence of its first occurrence, 0 in a free slot. `taken` (int64, one element) counts the slots in use.
    """

    keys: HashKeys
    slots: NDArray[np.int64]
    taken: NDArray[np.int64]

    @classmethod
    def new(cls, keys: HashKeys) -> SaidBefore:
        """Make an empty table."""
        return cls(keys, np.zeros((SLOTS, _SEQUENCE + 1), np.int64), np.zeros(1, np.int64))

    @property
    def is_full(self) -> bool:
        """Whether no more can be added."""
        return int(self.taken[0]) >= CAPACITY

    def clear(self) -> None:
        """Remove everything."""
        self.slots[:, _SEQUENCE] = 0
        self.taken[0] = 0


def fold_rows(rows: Rows, ids: NDArray[np.int64], said_before: SaidBefore) -> Folded:
    """Fold rows. `ids` (int64, 2 columns) are the IDs of the connections, each in two halves."""
    order = _by_sequence(rows)
    size = len(order)
    bounds = np.flatnonzero(np.diff(rows.connections[order], prepend=-1, append=-1))
    joined, answered, in_turn = np.zeros(size, np.int64), np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    seen = np.full(rows.statements.max(initial=NOT_FOLDABLE) + 1, -1, np.int64)
    slots = np.zeros((1 << (2 * size).bit_length(), 2), np.int64)
    folded = Folded(*(np.empty(size, np.int64) for _ in Folded._fields))
    marks = (joined, answered, in_turn, seen, slots, folded.first.copy())
    count = _fold(rows, order, bounds, ids, said_before, *marks, folded)
    return Folded(*(column[:count] for column in folded))


def _by_sequence(rows: Rows) -> NDArray[np.int64]:
    """Order rows by connection, then by sequence; equal sequences stay in order of arrival."""
    order = np.argsort(rows.connections, kind="stable")
    connections, sequences = rows.connections[order], rows.sequences[order]
    is_back = (np.diff(sequences) < 0) & (np.diff(connections) == 0)
    if is_back.any():
        order = np.lexsort((rows.sequences, rows.connections))
    return order


@inlined
def was_said(table: Any, connection: Any, fingerprint: Any, sequence: Any) -> Any:
    """Return whether a connection made a statement before a sequence, and add it if it did not."""
    slots, words = table.slots, (connection[0], connection[1], fingerprint)
    mask = np.uint64(len(slots) - 1)
    slot = first_slot(hashed(table.keys, np.uint64(0), words), len(slots))
    while slots[slot, _SEQUENCE] != 0:
        row = slots[slot]
        if row[0] == connection[0] and row[1] == connection[1] and row[2] == fingerprint:
            break
        slot = (slot + np.uint64(1)) & mask
    first = slots[slot, _SEQUENCE]
    if first != 0 and first < sequence:
        return True
    if first != 0 or table.taken[0] < CAPACITY:
        table.taken[0] += first == 0
        slots[slot, 0] = connection[0]
        slots[slot, 1] = connection[1]
        slots[slot, 2] = fingerprint
        slots[slot, _SEQUENCE] = sequence
    return False


@inlined
def _slot(  # noqa: PLR0917 - compiled functions are called by position
    keys: Any, slots: Any, generation: Any, statement: Any, paired: Any, places: Any, folded: Any
) -> Any:
    """Find the slot of a gathering of this generation, or a free slot for it."""
    mask = np.uint64(len(slots) - 1)
    slot = first_slot(hashed(keys, np.uint64(0), (statement, paired)), len(slots))
    while slots[slot, 0] == generation:
        place = slots[slot, 1]
        if places[place] == statement and folded.paired_sequences[place] == paired:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@inlined
def _find(rows: Any, order: Any, begin: Any, end: Any, sequence: Any) -> Any:
    """Return the place in `order` of a connection's first row with a sequence; -1 if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if rows.sequences[order[middle]] < sequence:
            low = middle + 1
        else:
            high = middle
    return low if low < end and rows.sequences[order[low]] == sequence else -1


@inlined
def _look_ahead(  # noqa: PLR0917 - compiled functions are called by position
    rows: Any, order: Any, begin: Any, end: Any, answered: Any, in_turn: Any
) -> None:
    """Mark the requests of a connection that are `answered` in this window.

    `in_turn` marks heartbeats that are answered before the next heartbeat, and their responses.
    """
    latest, waiting = np.int64(0), np.int64(-1)
    for at in range(begin, end):
        row = order[at]
        if rows.sequences[row] <= latest:
            continue
        latest = rows.sequences[row]
        if rows.pairings[row] == _MATCHED:
            request = _find(rows, order, begin, end, rows.paired_sequences[row])
            if request >= 0:
                answered[request] = True
        heartbeat = rows.heartbeats[row]
        if heartbeat == HIDDEN_HEARTBEAT:
            waiting = np.int64(-1)
        elif heartbeat != NO_HEARTBEAT and rows.kinds[row] == _REQUEST:
            waiting = np.int64(at)
        elif heartbeat != NO_HEARTBEAT:
            is_expected = waiting >= 0 and rows.sequences[order[waiting]] == rows.paired_sequences[row]
            if is_expected and rows.pairings[row] == _MATCHED:
                in_turn[waiting] = in_turn[at] = True
            waiting = np.int64(-1)


@compiled(None)
def _fold(  # noqa: PLR0912, PLR0915, PLR0917 - one walk, and compiled functions are called by position
    rows: Any,
    order: Any,
    bounds: Any,
    ids: Any,
    said_before: Any,
    joined: Any,
    answered: Any,
    in_turn: Any,
    seen: Any,
    slots: Any,
    places: Any,
    folded: Any,
) -> int:
    """Fold each connection. Returns the number of folded observations.

    `places` holds the statement of each of them. A slot holds the generation of a gathering and its index; a
    generation ends where all gatherings are cleared.
    """
    count, generation = 0, 0
    for connection in range(len(bounds) - 1):
        begin, end = bounds[connection], bounds[connection + 1]
        _look_ahead(rows, order, begin, end, answered, in_turn)
        generation += 1
        latest, described = np.int64(0), np.int64(NOT_DESCRIBED)
        request_body, response_body = np.int64(NO_HEARTBEAT), np.int64(NO_HEARTBEAT)
        for at in range(begin, end):
            row = order[at]
            sequence = rows.sequences[row]
            if sequence <= latest:
                continue
            latest = sequence
            statement, paired = rows.statements[row], rows.paired_sequences[row]
            is_new = rows.described[row] != NOT_DESCRIBED and rows.described[row] != described
            if is_new:
                described = rows.described[row]
            heartbeat = rows.heartbeats[row]
            if heartbeat == HIDDEN_HEARTBEAT:
                request_body = response_body = np.int64(NO_HEARTBEAT)
            elif heartbeat != NO_HEARTBEAT and rows.kinds[row] == _REQUEST:
                is_new = not in_turn[at] or heartbeat != request_body
                request_body = heartbeat if in_turn[at] else np.int64(NO_HEARTBEAT)
            elif heartbeat != NO_HEARTBEAT:
                is_new = not in_turn[at] or heartbeat != response_body
                response_body = heartbeat if in_turn[at] else np.int64(NO_HEARTBEAT)
            if rows.kinds[row] == _REQUEST:
                if rows.expects_response[row] and not answered[at]:
                    statement = NOT_FOLDABLE
            elif rows.pairings[row] == _MATCHED:
                request = _find(rows, order, begin, end, paired)
                if request < 0 or joined[request] == 0:
                    statement = NOT_FOLDABLE
                elif statement != NOT_FOLDABLE:
                    paired = joined[request]
            is_new |= statement == NOT_FOLDABLE
            if statement != NOT_FOLDABLE and seen[statement] != connection:
                seen[statement] = connection
                is_new |= not was_said(said_before, ids[connection], rows.fingerprints[row], sequence)
            if is_new:
                generation += 1
            else:
                slot = _slot(said_before.keys, slots, generation, statement, paired, places, folded)
                if slots[slot, 0] == generation:
                    place = slots[slot, 1]
                    folded.previous[place] = folded.last[place]
                    folded.last[place] = row
                    folded.counts[place] += 1
                    folded.sizes[place] += rows.sizes[row]
                    joined[at] = rows.sequences[folded.first[place]]
                    continue
                slots[slot, 0] = generation
                slots[slot, 1] = count
            folded.first[count] = row
            folded.last[count] = row
            folded.previous[count] = -1
            folded.counts[count] = 1
            folded.sizes[count] = rows.sizes[row]
            folded.paired_sequences[count] = paired
            places[count] = statement
            joined[at] = sequence
            count += 1
    return count
