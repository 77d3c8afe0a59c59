"""The walk of one part of a step: takes its connections through the automaton and stores the outcome."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.columnar.statement_columns import AT, NO_TEXT, StatementColumns
from expectations.conversation.columnar.window_columns import FIELDS, WindowColumns
from expectations.conversation.progress import Progress, in_flight_change
from expectations.judging.automaton import TICK_TEMPLATE, Automaton
from expectations.judging.cells import FACTS, IN_FLIGHT, NUMBER, PROGRESS, ROW, SERVER, TEXT
from expectations.judging.claim_template import ClaimBatch, Claimed, ClaimTemplate
from expectations.judging.facts import NO_CLIENT
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.walk import WALKED, Walked, WalkInput
from streaming.judging.changes import Before, ChangeCount
from streaming.judging.part import Part, groups
from streaming.judging.tally import Tally
from streaming.state.connections import CAPTURED_AT, NOWHERE, SEQUENCE, Connections

_NEW_ROW: Final = np.zeros(ROW, np.int64)
_NEW_ROW[PROGRESS:NUMBER] = Progress().numbers()
_Integers = NDArray[np.int64]


def ticks_of(connections: Connections, places: _Integers) -> WindowColumns:
    """Return a window of a tick for each connection in some rows."""
    count, listed = len(places), places.tolist()
    return WindowColumns(
        b"".join(map(connections.id_at, listed)),
        [connections.clients[place] for place in listed],
        connections.servers.values,
        connections.rows[places, SERVER],
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
        self, automaton: Automaton, judge: Judge, part: Part, connections: Connections, tally: Tally
    ) -> None:
        """Walk the part, move the connections of the windows that were walked, and add what they yield."""
        self._automaton = automaton
        self._brokers = judge.terms.brokers
        self._part = part
        self._connections = connections
        self._places = connections.places(part.columns.ids)
        self._is_known = self._places != NOWHERE
        self._rows = self._gathered()
        # The walk writes into them; only an archive asks what they were.
        before = None if tally.changes is None else self._rows.copy()
        part.latest[:] = self._rows[:, SEQUENCE]
        self._walked: Walked = automaton.process(self._walk_input(), self._rows)
        self.left = np.flatnonzero(self._walked.status != WALKED)
        self.hits = np.flatnonzero(self._walked.status == WALKED)
        self.clock = int(self._rows[self.hits, CAPTURED_AT].max(initial=0))
        self._keep_evidence()
        self._move_in_flight()
        self._name_speakers()
        self._yield_checks(tally)
        self._yield_claims(tally)
        if tally.changes is not None and before is not None:
            self._yield_changes(tally.changes, before)
        self._store()

    def _gathered(self) -> _Integers:
        """Return the row of each window's connection, with the automaton's number of its facts."""
        connections, automaton, columns = self._connections, self._automaton, self._part.columns
        rows = np.tile(_NEW_ROW, (len(columns), 1))
        rows[:, FACTS] = automaton.start
        rows[:, SERVER] = np.array([*map(connections.servers.number, columns.servers), 0])[columns.server_of]
        known = connections.rows[self._places[self._is_known]]
        used, inverse = np.unique(known[:, FACTS], return_inverse=True)
        numbers = [automaton.facts_number(connections.facts.values[number]) for number in used.tolist()]
        known[:, FACTS] = np.array(numbers, np.int64)[inverse]
        rows[self._is_known] = known
        return rows

    def _walk_input(self) -> WalkInput:
        columns, brokers, number = self._part.columns, self._brokers, self._automaton.configured.number
        configured = [number(brokers.get(server)) for _, server, _ in columns.servers]
        return WalkInput(
            np.array(configured, np.int64)[columns.server_of],
            columns.bounds,
            columns.numbers,
            np.ascontiguousarray(columns.values),
            self._stated(),
        )

    def _stated(self) -> _Integers:
        """Return the statements with the automaton's numbers of templates, and those of the pool of texts."""
        statements = self._part.columns.statements
        templates = [*map(self._automaton.template_number, statements.templates)]
        texts = np.array([*map(self._connections.texts.number, statements.texts), 0], np.int64)
        stated = statements.columns.copy()
        stated[AT["template"]] = np.array(templates, np.int64)[stated[AT["template"]]]
        for name in ("client", "group"):
            # NO_TEXT is the last place, which has 0.
            assert NO_TEXT == -1
            stated[AT[name]] = texts[stated[AT[name]]]
        return stated

    def _keep_evidence(self) -> None:
        """Move evidence from registers to the pool of texts."""
        texts, columns = self._rows[:, TEXT:], self._part.columns
        rows, at = np.nonzero(texts[self.hits] < 0)
        if len(rows):
            windows = self.hits[rows]
            evidence = columns.evidence(-1 - texts[windows, at])
            texts[windows, at] = [*map(self._connections.texts.number, evidence)]

    def _move_in_flight(self) -> None:
        connections, part, changes = self._connections, self._part, self._walked.changes
        for window in np.flatnonzero(self._walked.moves_in_flight != 0).tolist():
            requests = connections.in_flight_at(int(self._rows[window, IN_FLIGHT]))
            begin, end = part.columns.bounds[window : window + 2].tolist()
            for at in range(begin, end):
                moved = in_flight_change(part.statements[part.templates[at]])
                if changes[at] and moved is not None:
                    requests.add(moved[0], int(changes[at]))
            counts = tuple(sorted(requests.counts.items()))
            self._rows[window, IN_FLIGHT] = connections.in_flight.number(counts)

    def _name_speakers(self) -> None:
        part, texts = self._part, self._connections.texts.values
        for (number,), places in groups(self._rows[self.hits, FACTS]):
            facts = self._automaton.facts[number]
            for window in self.hits[places].tolist():
                part.software[window] = facts.software
                if facts.client != NO_CLIENT:
                    text = texts[self._rows[window, TEXT + facts.client]]
                    part.clients[window] = text if isinstance(text, str) else None

    def _yield_checks(self, tally: Tally) -> None:
        part, transitions = self._part, self._walked.transitions
        (at,) = np.nonzero(transitions >= 0)
        counts, servers = part.values("count")[at], part.columns.server_of[part.windows[at]]
        for (server, transition), places in groups(servers, transitions[at]):
            checks = self._automaton.yields[transition].checks
            if checks:
                count, address = int(counts[places].sum()), part.columns.servers[server][1]
                tally.add_checks(checks, count, address)

    def _yield_claims(self, tally: Tally) -> None:
        claims, gaps, batch = self._walked.claims, self._walked.gaps, ClaimBatch()
        for (transition,), places in groups(claims[:, 1]):
            made, rows = self._automaton.yields[transition], claims[places]
            values = gaps[rows[:, 3] + np.arange(len(made.gaps))[:, np.newaxis]]
            texts = self._connections.texts.values
            claimed = Claimed(self._part.columns, rows[:, 0], rows[:, 2], values, texts)
            for template in made.claims:
                batch.add(template, self._outermost(claimed, template) if template.is_of_server else claimed)
        tally.walked_claims.append(batch.packed())

    def _outermost(self, claimed: Claimed, template: ClaimTemplate) -> Claimed:
        """Keep the first and the last claim of each server; those between add nothing."""
        times = np.array(template.since.of(claimed), np.int64)
        ids = np.frombuffer(self._part.columns.ids, ">u8").reshape(-1, 2)[claimed.windows]
        chosen: set[int] = set()
        for _, places in groups(self._part.columns.server_of[claimed.windows]):
            first = np.lexsort((ids[places, 1], ids[places, 0], times[places]))[0]
            chosen |= {int(places[first]), int(places[times[places].argmax()])}
        rows = np.array(sorted(chosen), np.int64)
        return claimed.chosen(rows, claimed.occurrences[rows])

    def _yield_changes(self, changes: ChangeCount, before: _Integers) -> None:
        hits = self.hits
        has_changed = self._rows[hits, FACTS] != before[hits, FACTS]
        has_changed |= (self._rows[hits, NUMBER:] != before[hits, NUMBER:]).any(axis=1)
        for number in hits[has_changed].tolist():
            window, latest = self._part.columns.window(number), int(self._part.latest[number])
            known = Before()
            if self._is_known[number]:
                known = changes.before(self._built(number, before[number]))
            changes.add(window, known, self._built(number, self._rows[number]), latest)

    def _built(self, number: int, row: _Integers) -> ConnectionState:
        return self._connections.built(self._part.columns.key(number), row, self._automaton.facts[row[FACTS]])

    def _store(self) -> None:
        hits, connections, columns = self.hits, self._connections, self._part.columns
        rows, places, is_known = self._rows[hits], self._places[hits], self._is_known[hits]
        used, inverse = np.unique(rows[:, FACTS], return_inverse=True)
        facts = [self._automaton.facts[number] for number in used.tolist()]
        is_closed = np.array([each.is_closed for each in facts], np.bool_)[inverse]
        rows[:, FACTS] = np.array([*map(connections.facts.number, facts)], np.int64)[inverse]
        moved, added = is_known & ~is_closed, ~is_known & ~is_closed
        connections.remove(places[is_known & is_closed])
        connections.rows[places[moved]] = rows[moved]
        numbers = hits[added].tolist()
        ids = b"".join(map(columns.id, numbers))
        connections.add(ids, [columns.clients[number] for number in numbers], rows[added])
