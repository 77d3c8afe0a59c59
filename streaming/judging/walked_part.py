"""The walk of one part of a step: takes its connections through the automaton and stores the outcome."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.columnar.statement_columns import AT, NO_TEXT, StatementColumns
from expectations.conversation.columnar.window_columns import FIELDS, WindowColumns
from expectations.conversation.observation import Evidence
from expectations.conversation.progress import Progress
from expectations.judging.automaton import TICK_TEMPLATE, Automaton
from expectations.judging.cells import ROW
from expectations.judging.claim_template import Claimed
from expectations.judging.facts import NO_CLIENT
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from expectations.judging.walk import WALKED, StoredRows, Walked, WalkInput
from streaming.judging.changes import Before
from streaming.judging.part import Part, groups
from streaming.judging.tally import Tally
from streaming.judging.usage import ArchiveCount
from streaming.state.connections import (
    CAPTURED_AT,
    FIRST_TEXT,
    NOTHING_IN_FLIGHT,
    NOWHERE,
    PROGRESS_COUNT,
    SEQUENCE,
    Connections,
)

_NEW_ROW: Final = np.array([*Progress().numbers(), *[0] * (ROW - PROGRESS_COUNT)], np.int64)
_Integers = NDArray[np.int64]


def ticks_of(connections: Connections) -> WindowColumns:
    """Return a window of a tick for each connection without findings."""
    connections.lay_out()
    (places,) = np.nonzero(~connections.has_findings)
    count, listed = len(places), places.tolist()
    return WindowColumns(
        b"".join(map(connections.id_at, listed)),
        [connections.clients[place] for place in listed],
        connections.servers.values,
        connections.server[places],
        np.arange(count + 1),
        np.zeros(count, np.int64),
        np.zeros((len(FIELDS), count), np.int64),
        [""],
        np.empty(0, np.uint8),
        np.zeros(count + 1, np.int64),
        StatementColumns.of([TICK_TEMPLATE.statement]),
    )


class WalkedPart:
    """A part after its walk. `hits` (int64) are the windows that were walked, `left` those for the judge.

    `clock` is the latest capture time of the connections that were moved.
    """

    def __init__(
        self,
        automaton: Automaton,
        judge: Judge,
        part: Part,
        connections: Connections,
        archive: ArchiveCount | None,
    ) -> None:
        """Walk the part, and move the connections of the windows that were walked."""
        self._automaton = automaton
        self._judge = judge
        self._part = part
        self._connections = connections
        self._archive = archive
        columns = part.columns
        self._places = connections.places(columns.ids)
        self._is_known = self._places != NOWHERE
        self._cells = self._gathered(connections.cells, _NEW_ROW)
        self._facts = self._gathered_facts()
        # The walk writes into both; only an archive asks what they were.
        self._before = None if archive is None else (self._cells.copy(), self._facts.copy())
        self._in_flight = self._gathered(connections.in_flight, NOTHING_IN_FLIGHT)
        part.latest[:] = self._cells[:, SEQUENCE]
        has_findings = self._gathered(connections.has_findings, otherwise=False)
        in_flight = self._in_flight != NOTHING_IN_FLIGHT
        stored = StoredRows(self._cells, self._facts, in_flight, has_findings)
        self._walked: Walked = automaton.process(self._walk_input(), stored)
        self.left = np.flatnonzero(self._walked.status != WALKED)
        self.hits = np.flatnonzero(self._walked.status == WALKED)
        self.clock = int(self._cells[self.hits, CAPTURED_AT].max(initial=0))
        self._keep_evidence()
        self._move_in_flight()
        self._name_speakers()

    def yield_to(self, tally: Tally) -> None:
        """Add checks, claims and changes, and store the connections."""
        self._yield_checks(tally)
        self._yield_claims(tally)
        self._yield_changes()
        self._store()

    def _gathered(self, stored: NDArray[Any], otherwise: Any) -> NDArray[Any]:
        """Return what is stored of each window's connection, or something else for a new one."""
        gathered = np.empty((len(self._places), *stored.shape[1:]), stored.dtype)
        gathered[:] = otherwise
        gathered[self._is_known] = stored[self._places[self._is_known]]
        return gathered

    def _gathered_facts(self) -> _Integers:
        """Return the facts of the connections by the automaton's numbers."""
        facts = np.full(len(self._places), self._automaton.start, np.int64)
        used, inverse = np.unique(self._connections.facts[self._places[self._is_known]], return_inverse=True)
        table = self._connections.facts_table.values
        numbers = [self._automaton.facts_number(table[place]) for place in used.tolist()]
        facts[self._is_known] = np.array(numbers, np.int64)[inverse]
        return facts

    def _walk_input(self) -> WalkInput:
        columns, automaton, judge = self._part.columns, self._automaton, self._judge
        configured = [
            automaton.configured_number(judge.configured(server)) for _, server, _ in columns.servers
        ]
        return WalkInput(
            np.arange(len(columns)),
            np.array(configured, np.int64)[columns.server_of],
            columns.bounds[:-1],
            columns.bounds[1:],
            columns.numbers,
            np.ascontiguousarray(columns.values),
            self._stated(),
        )

    def _stated(self) -> _Integers:
        """Return the statements with the automaton's numbers of templates, and places of texts."""
        statements = self._part.columns.statements
        templates = [*map(self._automaton.template_number, statements.templates)]
        texts = np.array([*map(self._connections.texts.place, statements.texts), 0], np.int64)
        stated = statements.columns.copy()
        stated[AT["template"]] = np.array(templates, np.int64)[stated[AT["template"]]]
        for name in ("client", "group"):
            # NO_TEXT is the last place, which has 0.
            assert NO_TEXT == -1
            stated[AT[name]] = texts[stated[AT[name]]]
        return stated

    def _keep_evidence(self) -> None:
        """Put evidence that stays in a register into the pool of texts."""
        texts, columns = self._cells[:, FIRST_TEXT:], self._part.columns
        for row, column in np.argwhere(texts[self.hits] < 0).tolist():
            window = int(self.hits[row])
            evidence: Evidence = columns.evidence(-1 - int(texts[window, column]))
            texts[window, column] = self._connections.texts.place(evidence)

    def _move_in_flight(self) -> None:
        table, columns = self._connections.in_flight_table, self._part.columns
        for window in np.flatnonzero(self._walked.moves_in_flight != 0).tolist():
            requests = self._connections.in_flight_at(int(self._in_flight[window]))
            begin, end = columns.bounds[window : window + 2].tolist()
            for at in range(begin, end):
                change = int(self._walked.changes[at])
                if change:
                    requests.add(self._automaton.version_of(self._part.template(at)), change)
            self._in_flight[window] = table.place(tuple(sorted(requests.counts.items())))

    def _name_speakers(self) -> None:
        part, texts = self._part, self._connections.texts.values
        for (number,), places in groups(self._facts[self.hits]):
            facts = self._automaton.facts[number]
            for window in self.hits[places].tolist():
                part.software[window] = facts.software
                if facts.client != NO_CLIENT:
                    text = texts[self._cells[window, FIRST_TEXT + facts.client]]
                    part.clients[window] = text if isinstance(text, str) else None

    def _yield_checks(self, tally: Tally) -> None:
        part, transitions = self._part, self._walked.transitions
        (at,) = np.nonzero(transitions >= 0)
        counts, servers = part.values("count")[at], part.columns.server_of[part.windows[at]]
        for (server, transition), places in groups(servers, transitions[at]):
            checks = self._automaton.yields[transition].checks
            if checks:
                count, address = int(counts[places].sum()), part.columns.servers[server][1]
                tally.add_checks(checks, count, self._judge.listener(address))

    def _yield_claims(self, tally: Tally) -> None:
        claims, gaps = self._walked.claims, self._walked.gaps
        for (transition,), places in groups(claims[:, 1]):
            rows = claims[places]
            made = self._automaton.yields[transition]
            width = sum(len(each.gaps) for each in (made.claims, made.of_server) if each is not None)
            values = gaps[rows[:, 3] + np.arange(width)[:, np.newaxis]]
            claimed = Claimed(
                self._part.columns, rows[:, 0], rows[:, 2], values, self._connections.texts.values
            )
            own = 0
            if made.claims is not None:
                own = len(made.claims.gaps)
                tally.add(Outcome(claims=made.claims.filled(claimed)), listener="")
            if made.of_server is not None:
                of_server = claimed._replace(gaps=values[own:])
                if made.of_server.since is not None:
                    of_server = self._outermost(of_server, of_server.gaps[made.of_server.since])
                tally.add(Outcome(claims=made.of_server.filled(of_server)), listener="")

    def _outermost(self, claimed: Claimed, times: _Integers) -> Claimed:
        """Return the first and the last claim of each server: equal claims are merged, others add nothing."""
        part = self._part
        chosen: set[int] = set()
        for _, places in groups(part.columns.server_of[claimed.windows]):
            earliest = places[times[places] == times[places].min()].tolist()
            chosen.add(min(earliest, key=lambda place: part.columns.id(int(claimed.windows[place]))))
            chosen.add(int(places[times[places].argmax()]))
        return claimed.chosen(np.array(sorted(chosen), np.int64))

    def _yield_changes(self) -> None:
        archive = self._archive
        if archive is None or self._before is None:
            return
        hits, first = self.hits, PROGRESS_COUNT
        cells_before, facts_before = self._before
        has_changed = self._facts[hits] != facts_before[hits]
        has_changed |= (self._cells[hits, first:] != cells_before[hits, first:]).any(axis=1)
        for number in hits[has_changed].tolist():
            window, latest = self._part.columns.window(number), int(self._part.latest[number])
            before = Before()
            if self._is_known[number]:
                before = archive.before(self._built(number, cells_before, facts_before))
            state = self._built(number, self._cells, self._facts)
            archive.add_change(window, before, state, latest)

    def _built(self, number: int, cells: _Integers, facts: _Integers) -> ConnectionState:
        return self._connections.built(
            self._part.columns.key(number), cells[number], self._automaton.facts[facts[number]]
        )

    def _store(self) -> None:
        hits, known = self.hits, self._automaton.facts
        used, inverse = np.unique(self._facts[hits], return_inverse=True)
        is_closed = np.array([known[number].is_closed for number in used.tolist()], np.bool_)[inverse]
        table = self._connections.facts_table
        facts = np.array([table.place(known[number]) for number in used.tolist()], np.int64)[inverse]
        is_known = self._is_known[hits]
        moved, added = is_known & ~is_closed, ~is_known & ~is_closed
        self._connections.remove(self._places[hits[is_known & is_closed]])
        self._connections.move(
            self._places[hits[moved]], self._cells[hits[moved]], facts[moved], self._in_flight[hits[moved]]
        )
        keys = [self._part.columns.key(number) for number in hits[added].tolist()]
        self._connections.add(keys, self._cells[hits[added]], facts[added], self._in_flight[hits[added]])
