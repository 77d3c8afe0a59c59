"""Folding on columns: the decisions of `conversation/fold.py`, which says why, without observations.

Each row stands for a record. Its likeness is a number, equal for equal likenesses; NO_LIKENESS for
what is never folded.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.frame.record import Kind, Pairing
from expectations.conversation.columnar.acquaintance import Acquaintance, was_said

NO_LIKENESS: Final = -1
NOT_DESCRIBED: Final = 0
NO_BEAT: Final = 0
HIDDEN_BEAT: Final = -1
_REQUEST: Final = int(Kind.REQUEST)
_MATCHED: Final = int(Pairing.MATCHED)


class Rows(NamedTuple):
    """One row a record, in the order in which they came.

    `connections` (int64) are numbers from 0, `described` (int64) tells what a broker says of itself,
    by number, or NOT_DESCRIBED, `beats` (int64) what a heartbeat or its answer says, by number,
    NO_BEAT, or HIDDEN_BEAT for what may hide one. `likenesses` are int64, `kinds`, `pairings` uint8,
    `owes` bool, sequences int64.
    """

    connections: NDArray[np.int64]
    sequences: NDArray[np.int64]
    paired_sequences: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    pairings: NDArray[np.uint8]
    owes: NDArray[np.bool_]
    likenesses: NDArray[np.int64]
    described: NDArray[np.int64]
    beats: NDArray[np.int64]


class Folded(NamedTuple):
    """One element an observation, by connection and in order: its first and last row and its count.

    `previous` is the last row but one, -1 where there is one only. `paired_sequences` are those that the
    observation has after folding. All are int64.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    previous: NDArray[np.int64]
    counts: NDArray[np.int64]
    paired_sequences: NDArray[np.int64]


def fold_rows(rows: Rows, ids: NDArray[np.int64], acquaintance: Acquaintance) -> Folded:
    """Fold rows to observations. `ids` are those of the connections, each in two halves."""
    order = _by_sequence(rows)
    size = len(order)
    bounds = np.flatnonzero(np.diff(rows.connections[order], prepend=-1, append=-1))
    joined, answered, in_turn = np.zeros(size, np.int64), np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    seen = np.full(rows.likenesses.max(initial=NO_LIKENESS) + 1, -1, np.int64)
    slots = np.zeros((1 << (2 * size).bit_length(), 2), np.int64)
    folded = Folded(*(np.empty(size, np.int64) for _ in Folded._fields))
    marks = (joined, answered, in_turn, seen, slots, folded.first.copy())
    count = _fold(rows, order, bounds, ids, acquaintance, *marks, folded)
    return Folded(*(column[:count] for column in folded))


def _by_sequence(rows: Rows) -> NDArray[np.int64]:
    """Order the rows by connection, then by sequence; those of one sequence as they came."""
    order = np.argsort(rows.connections, kind="stable")
    connections, sequences = rows.connections[order], rows.sequences[order]
    is_back = (np.diff(sequences) < 0) & (np.diff(connections) == 0)
    if is_back.any():
        order = np.lexsort((rows.sequences, rows.connections))
    return order


@inlined
def _slot(  # noqa: PLR0917 - compiled functions are called by position
    slots: Any, generation: Any, likeness: Any, paired: Any, places: Any, folded: Any
) -> Any:
    """Find where a gathering of this generation stands, or the free slot for it."""
    mask = np.uint64(len(slots) - 1)
    value = np.uint64(likeness) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(paired)
    value = (value ^ (value >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    slot = (value ^ (value >> np.uint64(32))) & mask
    while slots[slot, 0] == generation:
        place = slots[slot, 1]
        if places[place] == likeness and folded.paired_sequences[place] == paired:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@inlined
def _find(rows: Any, order: Any, begin: Any, end: Any, sequence: Any) -> Any:
    """Find the first row of a connection with a sequence; -1 if there is none."""
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
    """Mark the requests of a connection that are answered.

    `in_turn` are the heartbeats answered before anything like another one comes, and their answers.
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
        beat = rows.beats[row]
        if beat == HIDDEN_BEAT:
            waiting = np.int64(-1)
        elif beat != NO_BEAT and rows.kinds[row] == _REQUEST:
            waiting = np.int64(at)
        elif beat != NO_BEAT:
            is_due = waiting >= 0 and rows.sequences[order[waiting]] == rows.paired_sequences[row]
            if is_due and rows.pairings[row] == _MATCHED:
                in_turn[waiting] = in_turn[at] = True
            waiting = np.int64(-1)


@compiled(None)
def _fold(  # noqa: PLR0912, PLR0915, PLR0917 - one walk, and compiled functions are called by position
    rows: Any,
    order: Any,
    bounds: Any,
    ids: Any,
    acquaintance: Any,
    joined: Any,
    answered: Any,
    in_turn: Any,
    seen: Any,
    slots: Any,
    places: Any,
    folded: Any,
) -> int:
    """Fold each connection; gives how many observations there are.

    `places` holds the likeness of each observation. A slot holds the generation of a gathering and its
    place; a generation ends where all gatherings are cleared.
    """
    count, generation = 0, 0
    for connection in range(len(bounds) - 1):
        begin, end = bounds[connection], bounds[connection + 1]
        _look_ahead(rows, order, begin, end, answered, in_turn)
        generation += 1
        latest, described = np.int64(0), np.int64(NOT_DESCRIBED)
        asked, told = np.int64(NO_BEAT), np.int64(NO_BEAT)
        for at in range(begin, end):
            row = order[at]
            sequence = rows.sequences[row]
            if sequence <= latest:
                continue
            latest = sequence
            likeness, paired = rows.likenesses[row], rows.paired_sequences[row]
            is_new = rows.described[row] != NOT_DESCRIBED and rows.described[row] != described
            if is_new:
                described = rows.described[row]
            beat = rows.beats[row]
            if beat == HIDDEN_BEAT:
                asked = told = np.int64(NO_BEAT)
            elif beat != NO_BEAT and rows.kinds[row] == _REQUEST:
                is_new = not in_turn[at] or beat != asked
                asked = beat if in_turn[at] else np.int64(NO_BEAT)
            elif beat != NO_BEAT:
                is_new = not in_turn[at] or beat != told
                told = beat if in_turn[at] else np.int64(NO_BEAT)
            if rows.kinds[row] == _REQUEST:
                if rows.owes[row] and not answered[at]:
                    likeness = NO_LIKENESS
            elif rows.pairings[row] == _MATCHED:
                request = _find(rows, order, begin, end, paired)
                if request < 0 or joined[request] == 0:
                    likeness = NO_LIKENESS
                elif likeness != NO_LIKENESS:
                    paired = joined[request]
            is_new |= likeness == NO_LIKENESS
            if likeness != NO_LIKENESS and seen[likeness] != connection:
                seen[likeness] = connection
                is_new |= not was_said(acquaintance, ids[connection], likeness, sequence)
            if is_new:
                generation += 1
            else:
                slot = _slot(slots, generation, likeness, paired, places, folded)
                if slots[slot, 0] == generation:
                    place = slots[slot, 1]
                    folded.previous[place] = folded.last[place]
                    folded.last[place] = row
                    folded.counts[place] += 1
                    joined[at] = rows.sequences[folded.first[place]]
                    continue
                slots[slot, 0] = generation
                slots[slot, 1] = count
            folded.first[count] = row
            folded.last[count] = row
            folded.previous[count] = -1
            folded.counts[count] = 1
            folded.paired_sequences[count] = paired
            places[count] = likeness
            joined[at] = sequence
            count += 1
    return count
