"""The walk: takes the windows of connections through the transitions of the automaton, in compiled code.

    for each frame of a window:
        relation    how its own IDs relate to the registers
        transition  the first of those for facts, template and relation whose guards hold
        yield the values of its claims; set the registers; advance the progress; take its facts

A window whose frames all have transitions moves its connection. At a frame without one, or with one that
asks the judge, the window is left, and its connection stays as it was.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined
from decoders.open_addressing import slot_of_row
from expectations.conversation.columnar.statement_columns import AT as OWN_AT
from expectations.conversation.columnar.window_columns import MISSING
from expectations.conversation.progress import NEVER, PROGRESS_NUMBERS
from expectations.conversation.statement_template import OwnValues
from expectations.judging.canonical import TEXTS, UUIDS
from expectations.judging.cells import (
    ADVANCED,
    FACTS,
    HAS_FINDINGS,
    IN_FLIGHT,
    INPUT,
    INPUTS,
    OF_OCCURRENCE,
    PROGRESS,
    ROW,
    TEXT,
    UUID,
    Effect,
    input_cell,
)

WALKED: Final = 0
UNKNOWN: Final = 1
"""No transition is known for the frame at which the window is left."""
ASKS: Final = 2
"""The judge is asked."""
TICK: Final = 0
"""The template of a tick, which is no frame."""
JUDGE: Final = -1
"""The facts of a state without a canonical form, and the target of a transition that asks the judge."""
UNUSUAL: Final = -1
"""The relation of an occurrence whose numbers are not as all transitions assume."""
NO_ENTRY: Final = -1
NO_VERSION: Final = -1

IN_INPUT: Final = 5
"""The relation of an ID that is in no register, and differs from the ID before it."""
AS_BEFORE: Final = 6
"""The relation of an ID that is in no register, but equals the ID before it: a group ID that is the client
ID, a member ID that is the instance ID."""
SINGLE, PAIRED, CORRELATED = 1, 2, 4
BITS: Final = 3
"""Bits of a relation's parts: four IDs, then the occurrence, then what is configured."""
CONFIGURED_AT: Final = 5 * BITS

_CLIENT, _GROUP, _EPOCH = int(OwnValues.CLIENT), int(OwnValues.GROUP), int(OwnValues.EPOCH)
_INSTANCE, _MEMBER = int(OwnValues.INSTANCE), int(OwnValues.MEMBER)
_NEW_CLIENT, _NEW_INSTANCE = int(Effect.NEW_CLIENT), int(Effect.NEW_INSTANCE)
_NEW_MEMBER, _LOSES, _FORGETS = int(Effect.NEW_MEMBER), int(Effect.LOSES), int(Effect.FORGETS)
_BEATS, _CLAIMS, _CLOSES = int(Effect.BEATS), int(Effect.CLAIMS), int(Effect.CLOSES)
_PROGRESS_COUNT: Final = len(PROGRESS_NUMBERS)
_CAPTURED_AT, _SEQUENCE, _LOSS = 0, 1, 2
_SHOWN_CLIENT, _SHOWN_INSTANCE, _SHOWN_MEMBER, _HEARTBEAT = 3, 5, 7, 9
_FIRST, _LAST, _BEGUN, _ENDED, _PREVIOUS, _COUNT, _CORRELATION, _PAIRED_WITH = map(input_cell, INPUTS[:8])
_INPUT_EPOCH, _INPUT_CLIENT, _INPUT_GROUP = (input_cell(name) for name in ("epoch", "client", "group"))
_INPUT_INSTANCE, _INPUT_MEMBER = input_cell("instance"), input_cell("member")
_EVIDENCE, _ANY_BEFORE = input_cell("evidence"), input_cell("in_flight")
_ANY_AFTER: Final = input_cell("in_flight_after")
_OF_TEMPLATE, _OF_CLIENT, _OF_GROUP, _OF_EPOCH = (
    OWN_AT[name] for name in ("template", "client", "group", "epoch")
)
_OF_INSTANCE, _OF_MEMBER = OWN_AT["instance_first"], OWN_AT["member_first"]
_Integers = NDArray[np.int64]


class WalkInput(NamedTuple):
    """What windows say, as arrays of int64.

    Window i has the occurrences from `bounds[i]` to `bounds[i + 1]`; `configured[i]` numbers what is
    configured of its server. `numbers` and `values` are those of `WindowColumns`, `statements` those of
    `StatementColumns`, with the automaton's numbers of templates, and those of the pool of texts, 0 for none.
    """

    configured: _Integers
    bounds: _Integers
    numbers: _Integers
    values: _Integers
    statements: _Integers


class Walked(NamedTuple):
    """What comes of walks, as arrays of int64.

    `status` says of each window whether it is WALKED, UNKNOWN or ASKS; `missing` has the key of an UNKNOWN
    one. `transitions` is that of each occurrence, NO_ENTRY in a window that was left; `changes` is how many
    more requests are in flight after it. `moves_in_flight` is 1 for a window that changes what is in flight.
    `claims` has a row for each transition with claims that was taken: window, transition, occurrence, and
    where its gaps begin in `gaps`. `counts` are the numbers of claims and of gaps.
    """

    status: _Integers
    missing: _Integers
    transitions: _Integers
    changes: _Integers
    moves_in_flight: _Integers
    claims: _Integers
    gaps: _Integers
    counts: _Integers


class Scratch(NamedTuple):
    """Memory of a walk: `cells`, those of the latest frame at its end, and `moved`, what is moved at once.

    `added` counts requests in flight by the number of their API version.
    """

    cells: _Integers
    moved: _Integers
    added: _Integers


@inlined
def _text_relation(cells: Any, text: Any) -> Any:
    code = np.int64(IN_INPUT)
    for register in range(TEXTS):
        if cells[TEXT + register] == text:
            code = np.int64(1 + register)
    return code


@inlined
def _uuid_relation(cells: Any, first: Any, second: Any) -> Any:
    code = np.int64(IN_INPUT)
    for register in range(UUIDS):
        at = UUID + 2 * register
        if cells[at] == first and cells[at + 1] == second:
            code = np.int64(1 + register)
    return code


@inlined
def _relation(cells: Any, own: Any, column: Any, statements: Any) -> Any:
    """Put the own values of a statement into the input cells, and relate them to the registers."""
    client = group = instance = member = np.int64(0)
    if own & _CLIENT:
        cells[_INPUT_CLIENT] = statements[_OF_CLIENT, column]
        client = _text_relation(cells, cells[_INPUT_CLIENT])
    if own & _GROUP:
        cells[_INPUT_GROUP] = statements[_OF_GROUP, column]
        group = _text_relation(cells, cells[_INPUT_GROUP])
        if client == IN_INPUT and group == IN_INPUT and cells[_INPUT_GROUP] == cells[_INPUT_CLIENT]:
            group = np.int64(AS_BEFORE)
    if own & _INSTANCE:
        first, second = statements[_OF_INSTANCE, column], statements[_OF_INSTANCE + 1, column]
        cells[_INPUT_INSTANCE], cells[_INPUT_INSTANCE + 1] = first, second
        instance = _uuid_relation(cells, first, second)
    if own & _MEMBER:
        first, second = statements[_OF_MEMBER, column], statements[_OF_MEMBER + 1, column]
        cells[_INPUT_MEMBER], cells[_INPUT_MEMBER + 1] = first, second
        member = _uuid_relation(cells, first, second)
        is_instance = cells[_INPUT_INSTANCE] == first and cells[_INPUT_INSTANCE + 1] == second
        if instance == IN_INPUT and member == IN_INPUT and is_instance:
            member = np.int64(AS_BEFORE)
    if own & _EPOCH:
        cells[_INPUT_EPOCH] = statements[_OF_EPOCH, column]
    return ((client << BITS | group) << BITS | instance) << BITS | member


@inlined
def _is_usual(cells: Any) -> Any:
    """Whether the numbers of an occurrence are positive and in order, as all transitions assume."""
    first, last, begun, ended = cells[_FIRST], cells[_LAST], cells[_BEGUN], cells[_ENDED]
    count, previous = cells[_COUNT], cells[_PREVIOUS]
    is_single = count == 1 and last == first and ended == begun and previous == 0
    is_many = count > 1 and previous > 0
    return (
        first > 0
        and last > 0
        and begun > 0
        and ended > 0
        and cells[_PAIRED_WITH] >= 0
        and (is_single or is_many)
    )


@inlined
def _value(cells: Any, values: Any, row: Any, column: Any) -> Any:
    """Evaluate a linear value."""
    return cells[values[row, column]] - cells[values[row, column + 1]] + values[row, column + 2]


@inlined
def _holds(cells: Any, guards: Any, row: Any) -> Any:
    """Whether a guard holds; its comparison is a number in `traced_values.GUARDS`."""
    left, right = _value(cells, guards, row, 1), _value(cells, guards, row, 4)
    comparison = guards[row, 0]
    if comparison == 0:
        return left == right
    if comparison == 1:
        return left != right
    return left < right if comparison == 2 else left <= right


@inlined
def _show(cells: Any, at: Any, last: Any, previous: Any) -> None:
    """Show an identity again, as `Shown.advance` does."""
    until = cells[at]
    if until == NEVER:
        return
    if last > until:
        cells[at] = last
        cells[at + 1] = max(previous, until)
    else:
        cells[at + 1] = max(cells[at + 1], last)


@inlined
def _advance(cells: Any, effect: Any, is_request: Any) -> None:
    """Advance the progress by a frame, as `Progress.advance` does, into the cells of the advanced one."""
    for at in range(_PROGRESS_COUNT):
        cells[ADVANCED + at] = cells[PROGRESS + at]
    first, last, begun, ended = cells[_FIRST], cells[_LAST], cells[_BEGUN], cells[_ENDED]
    previous = cells[_PREVIOUS]
    if effect & _NEW_CLIENT:
        cells[ADVANCED + _SHOWN_CLIENT] = cells[ADVANCED + _SHOWN_CLIENT + 1] = begun
    if effect & _NEW_INSTANCE:
        cells[ADVANCED + _SHOWN_INSTANCE] = cells[ADVANCED + _SHOWN_INSTANCE + 1] = begun
    if effect & _NEW_MEMBER:
        cells[ADVANCED + _SHOWN_MEMBER] = cells[ADVANCED + _SHOWN_MEMBER + 1] = begun
        cells[ADVANCED + _HEARTBEAT] = 0
    if effect & _FORGETS:
        cells[ADVANCED + _HEARTBEAT] = 0
    if effect & _LOSES:
        cells[ADVANCED + _LOSS] = last
    cells[ADVANCED + _CAPTURED_AT] = max(cells[ADVANCED + _CAPTURED_AT], ended)
    cells[ADVANCED + _SEQUENCE] = max(cells[ADVANCED + _SEQUENCE], last)
    if is_request:
        _show(cells, ADVANCED + _SHOWN_CLIENT, ended, previous)
        _show(cells, ADVANCED + _SHOWN_INSTANCE, ended, previous)
        if effect & _BEATS:
            _show(cells, ADVANCED + _SHOWN_MEMBER, ended, previous)
            cells[ADVANCED + _HEARTBEAT] = first


@inlined
def _move(tables: Any, transition: Any, cells: Any, moved: Any) -> None:
    """Set the registers, all at once."""
    begin, end = tables.begins[transition, 1], tables.begins[transition + 1, 1]
    for row in range(begin, end):
        moved[row - begin] = _value(cells, tables.moves, row, 1)
    for row in range(begin, end):
        cells[tables.moves[row, 0]] = moved[row - begin]


@inlined
def _read_frame(cells: Any, given: Any, tables: Any, at: Any) -> Any:
    """Put a frame into the input cells. Returns how it relates to the registers, or UNUSUAL."""
    column = given.numbers[at]
    for field in range(len(OF_OCCURRENCE)):
        cells[INPUT + field] = given.values[field, at]
    cells[_EVIDENCE] = -1 - at
    template = given.statements[_OF_TEMPLATE, column]
    if template == TICK:
        return np.int64(0)
    if not _is_usual(cells):
        return np.int64(UNUSUAL)
    relation = _relation(cells, tables.templates[template, 0], column, given.statements) << BITS
    if cells[_COUNT] == 1:
        relation |= SINGLE
    if cells[_PAIRED_WITH] != 0:
        relation |= PAIRED
    if cells[_CORRELATION] != MISSING:
        relation |= CORRELATED
    return relation


@inlined
def _in_flight_change(cells: Any, template: Any) -> Any:
    """Return how many more requests of the template's API version are in flight after a frame."""
    is_from_before = 0 < cells[_PAIRED_WITH] <= cells[PROGRESS + _LOSS]
    return np.int64(0) if is_from_before else template[2] * cells[_COUNT]


@inlined
def _transition(tables: Any, hash_keys: Any, key: Any, cells: Any) -> Any:
    """Return the first transition of a key whose guards hold, NO_ENTRY if there is none.

    The progress is advanced as this transition does.
    """
    entry = tables.slots[slot_of_row(tables.keys, tables.slots, hash_keys, key)]
    transition = np.int64(NO_ENTRY) if entry < 0 else tables.heads[entry]
    while transition >= 0:
        if key[1] != TICK:
            _advance(cells, tables.effects[transition], tables.templates[key[1], 3])
        holds = True
        for guard in range(tables.begins[transition, 0], tables.begins[transition + 1, 0]):
            holds = holds and _holds(cells, tables.guards, guard)
        if holds:
            break
        transition = tables.nexts[transition]
    return transition


@inlined
def _yield_claims(tables: Any, transition: Any, place: Any, cells: Any, walked: Any) -> None:
    """Write a row of claims, and the values of their gaps. `place` is a window and an occurrence."""
    counts = walked.counts
    claim = walked.claims[counts[0]]
    claim[0], claim[1], claim[2], claim[3] = place[0], transition, place[1], counts[1]
    counts[0] += 1
    for gap in range(tables.begins[transition, 2], tables.begins[transition + 1, 2]):
        walked.gaps[counts[1]] = _value(cells, tables.gaps, gap, 0)
        counts[1] += 1


@compiled(None)
def walk(  # noqa: PLR0912, PLR0915, PLR0917 - one walk, and compiled functions are called by position
    tables: Any, hash_keys: Any, given: Any, windows: Any, rows: Any, walked: Any, scratch: Any
) -> None:
    """Walk some windows. Row i of `rows` is that of the connection of window i, which it moves."""
    cells, added, counts = scratch.cells, scratch.added, walked.counts
    for place in range(len(windows)):
        window = windows[place]
        row, begin, end = rows[window], given.bounds[window], given.bounds[window + 1]
        if begin == end:
            # A crafted block may hold nothing new of a connection; that must not make one.
            walked.status[window] = ASKS
            continue
        for at in range(ROW):
            cells[at] = row[at]
        first_claim, first_gap, waiting = counts[0], counts[1], np.int64(0)
        is_tick = given.statements[_OF_TEMPLATE, given.numbers[begin]] == TICK
        is_new = is_tick or given.values[_FIRST - INPUT, begin] > cells[PROGRESS + _SEQUENCE]
        status = np.int64(WALKED) if cells[FACTS] != JUDGE and is_new else np.int64(ASKS)
        for at in range(begin, end):
            if status != WALKED:
                break
            relation = _read_frame(cells, given, tables, at)
            if relation == UNUSUAL:
                status = np.int64(ASKS)
                break
            number = given.statements[_OF_TEMPLATE, given.numbers[at]]
            template = tables.templates[number]
            change, left = np.int64(0), waiting
            if template[1] != NO_VERSION:
                change = _in_flight_change(cells, template)
                left += np.int64(added[template[1]] + change != 0) - np.int64(added[template[1]] != 0)
            cells[_ANY_BEFORE] = np.int64(cells[IN_FLIGHT] != 0 or waiting != 0)
            cells[_ANY_AFTER] = np.int64(cells[IN_FLIGHT] != 0 or left != 0)
            key = (cells[FACTS], np.int64(number), relation | given.configured[window] << CONFIGURED_AT)
            transition = _transition(tables, hash_keys, key, cells)
            if transition < 0:
                status = np.int64(UNKNOWN)
                for part in range(len(key)):
                    walked.missing[window, part] = key[part]
                break
            effect = tables.effects[transition]
            if tables.targets[transition] == JUDGE or (effect & _CLOSES and cells[HAS_FINDINGS] != 0):
                status = np.int64(ASKS)
                break
            if effect & _CLAIMS:
                _yield_claims(tables, transition, (window, at), cells, walked)
            _move(tables, transition, cells, scratch.moved)
            if number != TICK:
                for each in range(_PROGRESS_COUNT):
                    cells[PROGRESS + each] = cells[ADVANCED + each]
            if change != 0:
                added[template[1]] += change
                waiting = left
            walked.transitions[at], walked.changes[at] = transition, change
            cells[FACTS] = tables.targets[transition]
        for at in range(begin, end):
            version = tables.templates[given.statements[_OF_TEMPLATE, given.numbers[at]], 1]
            if version != NO_VERSION:
                added[version] = 0
        walked.status[window] = status
        if status == WALKED:
            walked.moves_in_flight[window] = np.int64(waiting != 0)
            for at in range(ROW):
                row[at] = cells[at]
        else:
            counts[0], counts[1] = first_claim, first_gap
            for at in range(begin, end):
                walked.transitions[at], walked.changes[at] = NO_ENTRY, 0
