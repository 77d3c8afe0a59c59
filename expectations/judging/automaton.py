"""The automaton: takes most windows to their verdicts without the judge.

It is a register automaton, built lazily as a tracing JIT builds its code:

    state         facts, and registers with a connection's own values (`canonical.py`)
    input         the template of a statement, and how its IDs relate to the registers
    transition    guards, the next facts, moves of registers, checks, claims (`tracing.py`)
    walk          compiled code that takes windows through the transitions (`walk.py`)
    side exit     a window with an unknown input, or one that asks the judge, is left to the judge

docs/decisions/judging.md has its contract and its costs. An automaton belongs to one worker and one query.
Between two steps it is cleared if it is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.record import Kind
from decoders.keyed_hash import HashKeys
from decoders.open_addressing import slot_of_row
from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.columnar.statement_columns import Numbered
from expectations.conversation.observation import ConnectionKey, Statement
from expectations.conversation.progress import ApiVersion, in_flight_change
from expectations.conversation.statement_template import StatementTemplate
from expectations.judging.cells import CELLS, TEXT, UUID, ZERO, Effect, Linear, input_cell
from expectations.judging.facts import Facts, canonical
from expectations.judging.judge import Judge, open_connection
from expectations.judging.tracing import Input, Learnt, learn
from expectations.judging.walk import (
    AS_BEFORE,
    BITS,
    CONFIGURED_AT,
    CORRELATED,
    IN_INPUT,
    JUDGE,
    NO_ENTRY,
    NO_VERSION,
    PAIRED,
    SINGLE,
    TICK,
    UNKNOWN,
    WALKED,
    Scratch,
    Walked,
    WalkInput,
    walk,
)

LEARNT_AT: Final = 8
JUDGED: Final = 30
"""Frames that go to the judge for each transition that is learnt, which costs as much as ten of them."""
CREDIT: Final = 256
"""Transitions that may be learnt at first, and saved up."""
FACTS: Final = 40_000
TEMPLATES: Final = 20_000
TRANSITIONS: Final = 1 << 15
PARTS: Final = 1 << 19
"""Guards, moves and gaps of claims of all transitions, each."""
MOST: Final = 64
"""Guards, and gaps of claims, of one transition; one with more asks the judge."""
BRANCHES: Final = 16
"""Transitions of one input; with one more the judge is asked."""
SIGHTINGS: Final = 100_000
"""Inputs without a transition that are counted."""
_NO_ROOM: Final = 1 << 10
"""Places for transitions that a step must find free; with fewer it begins with a cleared automaton."""
_Integers = NDArray[np.int64]
_Key = tuple[int, int, int]
"""Facts, template and relation."""


class Tables(NamedTuple):
    """The transitions as arrays of int64.

    `slots` is a hash table of entries, NO_ENTRY in a free slot. An entry has its key in `keys` (facts,
    template, relation) and its first transition in `heads`; `nexts` are further ones, tried in order.

    Of a transition, `targets` are the facts to which it leads, or JUDGE, and `effects` (`cells.Effect`) what
    it does to the progress. Its guards, moves and gaps of claims begin at `begins` (3 columns) and end where
    those of the next begin. A guard is a comparison and two values of 3 columns (`cells.Linear`); a move is a
    cell and a value; a gap is a value.

    A row of `templates` has the own values of a template, the number of the API version whose requests in
    flight it changes, or NO_VERSION, by how much, and whether it is a request.
    """

    slots: _Integers
    keys: _Integers
    heads: _Integers
    nexts: _Integers
    targets: _Integers
    effects: _Integers
    begins: _Integers
    guards: _Integers
    moves: _Integers
    gaps: _Integers
    templates: _Integers


@compiled(None)
def _slot_of(tables: Any, hash_keys: Any, facts: Any, template: Any, relation: Any) -> Any:
    """Find the slot of a key, or a free one for it."""
    return slot_of_row(tables.keys, tables.slots, hash_keys, (facts, template, relation))


TICK_TEMPLATE: Final = StatementTemplate(Statement(Kind.HEARTBEAT))
"""The input of a tick: claim again what was shown since the latest claim. No frame has this template."""


class Automaton:
    """Facts, templates and transitions, by number. `clears` counts how often it was full.

    `yields` are the transitions without what the walk knows of them: their checks and claims. `configured`
    numbers what is configured of servers.
    """

    def __init__(self, judge: Judge, secret: bytes) -> None:
        """`secret`, 16 bytes or more, keeps strangers from choosing IDs that collide or equal stand-ins."""
        self.clears = 0
        self._judge, self._secret = judge, secret
        self._hash_keys = HashKeys.of(secret)
        self._start, _ = canonical(open_connection(ConnectionKey(b"", "", "", "", 0)))
        self._clear()

    def _clear(self) -> None:
        self.facts: list[Facts] = []
        self.templates = [TICK_TEMPLATE]
        self.yields: list[Learnt] = []
        self._facts_numbers: dict[bytes, int] = {}
        self._template_numbers = {TICK_TEMPLATE: TICK}
        self._versions = Numbered[ApiVersion]()
        self.configured = Numbered[ClusterDescription | None]()
        # Transitions are many and their checks few: equal checks are one object.
        self._checks: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._sightings: dict[_Key, int] = {}
        self._entries = 0
        self._credit = float(CREDIT)
        self._tables = Tables(
            slots=np.full(2 * TRANSITIONS, NO_ENTRY, np.int64),
            keys=np.empty((TRANSITIONS, 3), np.int64),
            heads=np.empty(TRANSITIONS, np.int64),
            nexts=np.empty(TRANSITIONS, np.int64),
            targets=np.empty(TRANSITIONS, np.int64),
            effects=np.empty(TRANSITIONS, np.int64),
            begins=np.zeros((TRANSITIONS + 1, 3), np.int64),
            guards=np.empty((PARTS, 1 + 2 * len(Linear._fields)), np.int64),
            moves=np.empty((PARTS, 1 + len(Linear._fields)), np.int64),
            gaps=np.empty((PARTS, len(Linear._fields)), np.int64),
            templates=np.zeros((TEMPLATES, 4), np.int64),
        )
        self._tables.templates[TICK, 1] = NO_VERSION
        self.start = self.facts_number(self._start)

    def begin_step(self) -> int:
        """Clear the automaton if it is full, which voids earlier numbers. Returns how often, so 0 or 1."""
        full = (
            (len(self.facts), FACTS // 2),
            (len(self.templates), TEMPLATES // 2),
            (len(self.yields), TRANSITIONS - _NO_ROOM),
            (int(self._tables.begins[len(self.yields)].max()), PARTS // 2),
        )
        if len(self._sightings) > SIGHTINGS:
            self._sightings.clear()
        is_full = any(size > limit for size, limit in full)
        if is_full:
            self._clear()
            self.clears += 1
        return int(is_full)

    def facts_number(self, facts: Facts) -> int:
        """Return the number of facts, JUDGE if they have none, or if there are too many."""
        number = self._facts_numbers.get(facts.packed, JUDGE)
        if number == JUDGE and facts.packed and len(self.facts) < FACTS:
            number = self._facts_numbers[facts.packed] = len(self.facts)
            self.facts.append(facts)
        return number

    def template_number(self, template: StatementTemplate) -> int:
        """Return the number of a template, NO_ENTRY if there are too many."""
        number = self._template_numbers.get(template, NO_ENTRY)
        if number == NO_ENTRY and len(self.templates) < TEMPLATES:
            number = self._template_numbers[template] = len(self.templates)
            self.templates.append(template)
            change = in_flight_change(template.statement)
            in_flight = (NO_VERSION, 0) if change is None else (self._versions.number(change[0]), change[1])
            is_request = template.statement.kind is Kind.REQUEST
            self._tables.templates[number] = template.own, *in_flight, is_request
        return number

    def process(self, given: WalkInput, rows: _Integers) -> Walked:
        """Walk windows; learn transitions that some of them lack, and walk these again.

        Row i of `rows` is that of the connection of window i, as it is stored, with the automaton's number of
        its facts. Windows that are walked move it.
        """
        windows, frames = len(rows), len(given.numbers)
        walked = Walked(
            np.empty(windows, np.int64),
            np.zeros((windows, 3), np.int64),
            np.full(frames, NO_ENTRY, np.int64),
            np.zeros(frames, np.int64),
            np.zeros(windows, np.int64),
            np.empty((frames, 4), np.int64),
            np.empty(frames * MOST, np.int64),
            np.zeros(2, np.int64),
        )
        self._walk(given, np.arange(windows), rows, walked)
        while self._learn(given, rows, walked):
            self._walk(given, np.flatnonzero(walked.status == UNKNOWN), rows, walked)
        judged = int(np.diff(given.bounds)[walked.status != WALKED].sum())
        self._credit = min(CREDIT, self._credit + judged / JUDGED)
        claims, gaps = walked.counts.tolist()
        return walked._replace(claims=walked.claims[:claims], gaps=walked.gaps[:gaps])

    def _learn(self, given: WalkInput, rows: _Integers, walked: Walked) -> bool:
        """Learn transitions that windows lack, as far as the credit goes. Returns whether any were learnt."""
        unknown = np.flatnonzero(walked.status == UNKNOWN)
        if not len(unknown):
            return False
        missing, first, counts = np.unique(
            walked.missing[unknown], axis=0, return_index=True, return_counts=True
        )
        before = len(self.yields)
        for key, window, count in zip(
            map(tuple, missing.tolist()), unknown[first], counts.tolist(), strict=True
        ):
            self._sightings[key] = self._sightings.get(key, 0) + count
            if self._sightings[key] >= LEARNT_AT:
                self._learn_window(given, window, rows, walked)
        return len(self.yields) > before

    def _learn_window(self, given: WalkInput, window: np.int64, rows: _Integers, walked: Walked) -> None:
        """Walk one window, and learn what it lacks."""
        while self._credit >= 1 and self._has_room():
            cells = self._walk(given, np.array([window]), rows, walked)
            key: _Key = tuple(walked.missing[window].tolist())
            if walked.status[window] != UNKNOWN or key[1] == NO_ENTRY:
                return
            self._add(key, self._learnt(key, cells.tolist()))
            self._credit -= 1

    def _learnt(self, key: _Key, cells: list[int]) -> Learnt:
        facts, template, _ = key
        if len(self._branches(key)) >= BRANCHES:
            return Learnt(())
        return learn(self._judge, self._secret, self.facts[facts], self._input(template, key[2]), cells)

    def _input(self, template: int, relation: int) -> Input:
        bits = relation & ((1 << BITS) - 1)
        codes = [relation >> BITS * place & ((1 << BITS) - 1) for place in (4, 3, 2, 1)]
        client, group, instance, member = codes
        return Input(
            None if template == TICK else self.templates[template],
            _cell(client, TEXT, 1, "client", ""),
            _cell(group, TEXT, 1, "group", "client"),
            _cell(instance, UUID, 2, "instance", ""),
            _cell(member, UUID, 2, "member", "instance"),
            bool(bits & SINGLE),
            bool(bits & PAIRED),
            bool(bits & CORRELATED),
            self.configured.values[relation >> CONFIGURED_AT],
        )

    def _walk(self, given: WalkInput, windows: _Integers, rows: _Integers, walked: Walked) -> _Integers:
        """Walk some windows. Returns the cells of the latest frame."""
        scratch = Scratch(
            np.zeros(CELLS, np.int64), np.empty(CELLS, np.int64), np.zeros(len(self._versions) + 1, np.int64)
        )
        walk(self._tables, self._hash_keys, given, windows, rows, walked, scratch)
        return scratch.cells

    def _add(self, key: _Key, learnt: Learnt) -> None:
        """Add a transition."""
        if max(len(learnt.gaps), len(learnt.guards)) > MOST:
            learnt = Learnt(learnt.guards[:MOST])
        target = JUDGE if learnt.facts is None else self.facts_number(learnt.facts)
        closes = learnt.facts is not None and learnt.facts.is_closed
        tables, number = self._tables, len(self.yields)
        guards = [(guard.comparison, *guard.left, *guard.right) for guard in learnt.guards]
        moves = [(cell, *value) for cell, value in learnt.moves]
        parts: list[tuple[_Integers, Sequence[tuple[int, ...]]]]
        parts = [(tables.guards, guards), (tables.moves, moves), (tables.gaps, learnt.gaps)]
        for column, (table, rows) in enumerate(parts):
            begin = int(tables.begins[number, column])
            tables.begins[number + 1, column] = begin + len(rows)
            for at, row in enumerate(rows, begin):
                table[at] = row
        tables.targets[number] = target
        tables.effects[number] = (
            learnt.effect | (Effect.CLAIMS if learnt.claims else 0) | (Effect.CLOSES if closes else 0)
        )
        checks = self._checks.setdefault(learnt.checks, learnt.checks)
        # What the tables hold is not kept twice.
        self.yields.append(learnt._replace(guards=(), facts=None, moves=(), checks=checks))
        tables.nexts[number] = NO_ENTRY
        branches = self._branches(key)
        if branches:
            tables.nexts[branches[-1]] = number
            return
        tables.slots[_slot_of(tables, self._hash_keys, *key)] = self._entries
        tables.keys[self._entries], tables.heads[self._entries] = key, number
        self._entries += 1

    def _branches(self, key: _Key) -> list[int]:
        """Return the transitions of an input, in the order in which they are tried."""
        entry = int(self._tables.slots[_slot_of(self._tables, self._hash_keys, *key)])
        found = [] if entry == NO_ENTRY else [int(self._tables.heads[entry])]
        while found and self._tables.nexts[found[-1]] != NO_ENTRY:
            found.append(int(self._tables.nexts[found[-1]]))
        return found

    def _has_room(self) -> bool:
        number = len(self.yields)
        return number < TRANSITIONS and int(self._tables.begins[number].max()) + MOST <= PARTS


def _cell(code: int, registers: int, width: int, own: str, before: str) -> int:
    """Return the cell that has an ID, by its relation to the registers."""
    if code == 0:
        return ZERO
    if code == IN_INPUT:
        return input_cell(own)
    return input_cell(before) if code == AS_BEFORE else registers + width * (code - 1)
