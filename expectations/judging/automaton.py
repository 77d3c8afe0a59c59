"""The automaton: takes most windows to their verdicts without the judge.

It is a register automaton, built lazily as a tracing JIT builds its code:

    state         facts, and registers with a connection's own values (`canonical.py`)
    input         the template of a statement, and how its IDs relate to the registers
    transition    guards, the next facts, moves of registers, checks, claims (`tracing.py`)
    walk          compiled code that takes windows through the transitions (`walk.py`)
    side exit     a window with an unknown input, or one that asks the judge, is left to the judge

The contract:

- What the walk yields is what the judge yields: `tests/streaming/judging/test_automaton_steps.py` holds both
  equal after each step, on all cases, mutants, captures and random scripts.
- A frame that yields a finding always goes to the judge.
- Learning a transition costs as much as some ten judgements. So it is learnt when its input comes the
  LEARNT_AT-th time, and at most one for every JUDGED frames that went to the judge: traffic that never
  repeats itself at most doubles what it costs.
- The automaton belongs to one worker and one query. It may be cleared between two steps, and is when it is
  full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Kind
from decoders.keyed_hash import HashKeys
from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.observation import ConnectionKey, Statement
from expectations.conversation.progress import ApiVersion, in_flight_change
from expectations.conversation.statement_template import StatementTemplate
from expectations.judging.cells import CELLS, NUMBER, TEXT, UUID, ZERO, Linear, input_cell
from expectations.judging.claim_template import ClaimTemplate
from expectations.judging.facts import Facts, canonical
from expectations.judging.judge import Judge, open_connection
from expectations.judging.tracing import Effect, Input, Learnt, Relation, Tracer
from expectations.judging.walk import (
    AS_BEFORE,
    BEATS,
    BITS,
    CLAIMS,
    CLOSES,
    CONFIGURED_AT,
    CORRELATED,
    FORGETS,
    IN_INPUT,
    JUDGE,
    LOSES,
    NEW_CLIENT,
    NEW_INSTANCE,
    NEW_MEMBER,
    NO_ENTRY,
    NO_VERSION,
    PAIRED,
    SINGLE,
    TICK,
    UNKNOWN,
    WALKED,
    Scratch,
    StoredRows,
    Tables,
    Walked,
    WalkInput,
    slot_of,
    walk,
)

LEARNT_AT: Final = 8
JUDGED: Final = 10
CREDIT: Final = 256
"""Transitions that may be learnt at first, and saved up."""
FACTS: Final = 40_000
TEMPLATES: Final = 20_000
TRANSITIONS: Final = 1 << 15
PARTS: Final = 1 << 19
"""Guards, moves and gaps of claims of all transitions, each."""
BRANCHES: Final = 16
"""Transitions of one input; with one more the judge is asked."""
SIGHTINGS: Final = 100_000
"""Inputs without a transition that are counted."""
_NO_ROOM: Final = 1 << 10
"""Places for transitions that a step must find free; with fewer it begins with a cleared automaton."""
_Integers = NDArray[np.int64]
_Key = tuple[int, int, int]
"""Facts, template and relation."""


TICK_TEMPLATE: Final = StatementTemplate(Statement(Kind.HEARTBEAT))
"""Stands for the time to claim again what was shown since the latest claim. No connection says it."""


class Yield(NamedTuple):
    """What a transition yields: its checks, its claims, and those that belong to no connection."""

    checks: tuple[tuple[str, str], ...]
    claims: ClaimTemplate | None
    of_server: ClaimTemplate | None


class Automaton:
    """Facts, templates and transitions, by number. `clears` counts how often it was full."""

    def __init__(self, judge: Judge, secret: bytes) -> None:
        """`secret`, 16 bytes or more, keeps strangers from choosing IDs that collide or equal stand-ins."""
        self.clears = 0
        self._tracer = Tracer(judge, secret)
        self._hash_keys = HashKeys.of(secret)
        self._start, _ = canonical(open_connection(ConnectionKey(b"", "", "", "", 0)))
        self._clear()

    def _clear(self) -> None:
        self.facts: list[Facts] = []
        self.templates = [TICK_TEMPLATE]
        self.versions: list[ApiVersion] = []
        self.yields: list[Yield] = []
        self._facts_numbers: dict[bytes, int] = {}
        self._template_numbers: dict[StatementTemplate, int] = {}
        # Transitions are many and their checks few: equal checks are one object.
        self._checks: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._version_numbers: dict[ApiVersion, int] = {}
        self._configured: list[ClusterDescription | None] = [None]
        self._sightings: dict[_Key, int] = {}
        self._entries = 0
        self._most_gaps = self._most_moves = 1
        self._credit = float(CREDIT)
        self._tables = Tables(
            slots=np.full(2 * TRANSITIONS, NO_ENTRY, np.int64),
            keys=np.empty((TRANSITIONS, 3), np.int64),
            heads=np.empty(TRANSITIONS, np.int64),
            nexts=np.empty(TRANSITIONS, np.int64),
            targets=np.empty(TRANSITIONS, np.int64),
            flags=np.empty(TRANSITIONS, np.int64),
            begins=np.zeros((TRANSITIONS + 1, 3), np.int64),
            guards=np.empty((PARTS, 2 + 2 * len(Linear._fields)), np.int64),
            moves=np.empty((PARTS, 1 + len(Linear._fields)), np.int64),
            gaps=np.empty((PARTS, len(Linear._fields)), np.int64),
            widths=np.empty((FACTS, 3), np.int64),
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
        number = self._facts_numbers.get(facts.packed)
        if number is None:
            if len(self.facts) >= FACTS or not facts.packed:
                return JUDGE
            number = self._facts_numbers[facts.packed] = len(self.facts)
            self.facts.append(facts)
            self._tables.widths[number] = facts.widths
        return number

    def template_number(self, template: StatementTemplate) -> int:
        """Return the number of a template, NO_ENTRY if there are too many."""
        if template == TICK_TEMPLATE:
            return TICK
        number = self._template_numbers.get(template)
        if number is None:
            number = len(self.templates)
            if number >= TEMPLATES:
                return NO_ENTRY
            self._template_numbers[template] = number
            self.templates.append(template)
            change = in_flight_change(template.statement)
            is_request = template.statement.kind is Kind.REQUEST
            in_flight = (NO_VERSION, 0) if change is None else (self._version_number(change[0]), change[1])
            self._tables.templates[number] = template.own, *in_flight, is_request
        return number

    def configured_number(self, configured: ClusterDescription | None) -> int:
        """Return the number of what is configured of a server."""
        if configured not in self._configured:
            self._configured.append(configured)
        return self._configured.index(configured)

    def version_of(self, template: StatementTemplate) -> ApiVersion:
        """Return the API version whose requests in flight a statement changes."""
        return self.versions[int(self._tables.templates[self._template_numbers[template], 1])]

    def process(self, given: WalkInput, stored: StoredRows) -> Walked:
        """Walk windows; learn transitions that some of them lack, and walk these again."""
        whole = self._walk(given, stored)[0]
        while learnt := self._learn(given, stored, whole, int(self._credit)):
            self._credit -= learnt
            windows = np.flatnonzero(whole.status == UNKNOWN)
            whole = _merged(whole, self._walk(_chosen(given, windows), stored)[0], windows)
        judged = int((given.ends - given.begins)[whole.status != WALKED].sum())
        self._credit = min(CREDIT, self._credit + judged / JUDGED)
        return whole

    def _learn(self, given: WalkInput, stored: StoredRows, walked: Walked, budget: int) -> int:
        """Learn transitions that windows lack, up to a budget. Returns how many were learnt."""
        unknown = np.flatnonzero(walked.status == UNKNOWN)
        if not len(unknown):
            return 0
        missing, first, counts = np.unique(
            walked.missing[unknown], axis=0, return_index=True, return_counts=True
        )
        learnt = 0
        for key, window, count in zip(
            missing.tolist(), unknown[first].tolist(), counts.tolist(), strict=True
        ):
            seen = self._sightings[tuple(key)] = self._sightings.get(tuple(key), 0) + count
            if seen >= LEARNT_AT and learnt < budget:
                learnt += self._learn_window(given, stored, window, budget - learnt)
        return learnt

    def _learn_window(self, given: WalkInput, stored: StoredRows, window: int, budget: int) -> int:
        """Learn the transitions that one window lacks."""
        begin, end = window, window + 1
        place = given.places[begin:end]
        one = given._replace(
            places=np.zeros(1, np.int64),
            configured=given.configured[begin:end],
            begins=given.begins[begin:end],
            ends=given.ends[begin:end],
        )
        for learnt in range(budget):
            alone = stored.copied(place)
            walked, cells = self._walk(one, alone)
            if walked.status[0] != UNKNOWN:
                return learnt
            key: _Key = tuple(walked.missing[0].tolist())
            if key[1] == NO_ENTRY or not self._has_room():
                return learnt
            self._add(key, self._learnt(key, cells.tolist()))
        return budget

    def _learnt(self, key: _Key, cells: list[int]) -> Learnt:
        facts, template, _ = key
        if len(self._branches(key)) >= BRANCHES:
            return Learnt(())
        return self._tracer.learn(self.facts[facts], self._input(template, key[2]), cells)

    def _input(self, template: int, relation: int) -> Input:
        bits = relation & ((1 << BITS) - 1)
        codes = [relation >> BITS * place & ((1 << BITS) - 1) for place in (4, 3, 2, 1)]
        client, group, instance, member = codes
        return Input(
            None if template == TICK else self.templates[template],
            Relation(
                _cell(client, TEXT, 1, "client", ""),
                _cell(group, TEXT, 1, "group", "client"),
                _cell(instance, UUID, 2, "instance", ""),
                _cell(member, UUID, 2, "member", "instance"),
            ),
            bool(bits & SINGLE),
            bool(bits & PAIRED),
            bool(bits & CORRELATED),
            self._configured[relation >> CONFIGURED_AT],
        )

    def _walk(self, given: WalkInput, stored: StoredRows) -> tuple[Walked, _Integers]:
        """Walk windows. Returns the cells of the latest frame, too."""
        windows, frames = len(given.places), len(given.numbers)
        inside = int((given.ends - given.begins).sum())
        walked = Walked(
            np.empty(windows, np.int64),
            np.zeros((windows, 3), np.int64),
            np.full(frames, NO_ENTRY, np.int64),
            np.zeros(frames, np.int64),
            np.zeros(windows, np.int64),
            np.empty((inside, 4), np.int64),
            np.empty(inside * self._most_gaps, np.int64),
        )
        scratch = Scratch(
            np.zeros(CELLS, np.int64),
            np.empty(self._most_moves, np.int64),
            np.zeros(len(self.versions) + 1, np.int64),
            np.zeros(2, np.int64),
        )
        walk(self._tables, self._hash_keys, given, stored, walked, scratch)
        claims, gaps = scratch.counts.tolist()
        return walked._replace(claims=walked.claims[:claims], gaps=walked.gaps[:gaps]), scratch.cells

    def _add(self, key: _Key, learnt: Learnt) -> None:
        """Add a transition."""
        target = JUDGE if learnt.facts is None else self.facts_number(learnt.facts)
        templates = [each for each in (learnt.claims, learnt.of_server) if each is not None]
        gaps = [gap for template in templates for gap in template.gaps]
        moves = list(_moves(learnt)) if target != JUDGE else []
        tables, number = self._tables, len(self.yields)
        guards = [(guard.comparison, *guard.left, *guard.right, guard.outcome) for guard in learnt.guards]
        parts: list[tuple[_Integers, Sequence[tuple[int, ...]]]]
        parts = [(tables.guards, guards), (tables.moves, moves), (tables.gaps, gaps)]
        for column, (table, rows) in enumerate(parts):
            begin = int(tables.begins[number, column])
            tables.begins[number + 1, column] = begin + len(rows)
            for at, row in enumerate(rows, begin):
                table[at] = row
        self._most_gaps = max(self._most_gaps, len(gaps))
        self._most_moves = max(self._most_moves, len(moves))
        tables.targets[number] = target
        closes = target != JUDGE and self.facts[target].is_closed
        tables.flags[number] = (
            _flags(learnt.effect) | (CLAIMS if templates else 0) | (CLOSES if closes else 0)
        )
        checks = self._checks.setdefault(learnt.checks, learnt.checks)
        self.yields.append(Yield(checks, learnt.claims, learnt.of_server))
        tables.nexts[number] = NO_ENTRY
        branches = self._branches(key)
        if branches:
            tables.nexts[branches[-1]] = number
            return
        tables.slots[slot_of(tables, self._hash_keys, *key)] = self._entries
        tables.keys[self._entries], tables.heads[self._entries] = key, number
        self._entries += 1

    def _branches(self, key: _Key) -> list[int]:
        """Return the transitions of an input, in the order in which they are tried."""
        entry = int(self._tables.slots[slot_of(self._tables, self._hash_keys, *key)])
        found = [] if entry == NO_ENTRY else [int(self._tables.heads[entry])]
        while found and self._tables.nexts[found[-1]] != NO_ENTRY:
            found.append(int(self._tables.nexts[found[-1]]))
        return found

    def _has_room(self) -> bool:
        number = len(self.yields)
        return number < TRANSITIONS and int(self._tables.begins[number].max()) + _MOST <= PARTS

    def _version_number(self, version: ApiVersion) -> int:
        number = self._version_numbers.setdefault(version, len(self.versions))
        if number == len(self.versions):
            self.versions.append(version)
        return number


_MOST: Final = 512
"""Guards, moves or gaps of one transition, at most."""


def _chosen(given: WalkInput, windows: _Integers) -> WalkInput:
    return given._replace(
        places=given.places[windows],
        configured=given.configured[windows],
        begins=given.begins[windows],
        ends=given.ends[windows],
    )


def _merged(first: Walked, again: Walked, windows: _Integers) -> Walked:
    """Return what came of two walks; the second was of some of the windows."""
    for whole, part in (
        (first.status, again.status),
        (first.missing, again.missing),
        (first.moves_in_flight, again.moves_in_flight),
    ):
        whole[windows] = part
    claims = again.claims.copy()
    claims[:, 0] = windows[claims[:, 0]]
    claims[:, 3] += len(first.gaps)
    return first._replace(
        transitions=np.maximum(first.transitions, again.transitions),
        changes=first.changes + again.changes,
        claims=np.concatenate((first.claims, claims)),
        gaps=np.concatenate((first.gaps, again.gaps)),
    )


def _cell(code: int, registers: int, width: int, own: str, before: str) -> int:
    """Return the cell that has an ID, by its relation to the registers."""
    if code == 0:
        return ZERO
    if code == IN_INPUT:
        return input_cell(own)
    return input_cell(before) if code == AS_BEFORE else registers + width * (code - 1)


def _moves(learnt: Learnt) -> Iterable[tuple[int, ...]]:
    """Yield the cells that change, each with its new value."""
    numbers, uuids, texts = learnt.moves
    values = [(NUMBER + at, value) for at, value in enumerate(numbers)]
    values += [
        (UUID + 2 * at + half, Linear(cell + half)) for at, cell in enumerate(uuids) for half in (0, 1)
    ]
    values += [(TEXT + at, Linear(cell)) for at, cell in enumerate(texts)]
    for cell, value in values:
        if value != Linear(cell):
            yield cell, *value


def _flags(effect: Effect) -> int:
    flags = NEW_CLIENT, NEW_INSTANCE, NEW_MEMBER, LOSES, FORGETS, BEATS
    return sum(flag for flag, is_set in zip(flags, effect, strict=True) if is_set)
