"""The columnar cache: judges the windows of many connections at once, by transitions of the judgement cache.

The judgement cache (`judgement_cache.py`) looks one window up at a time. A batch of many connections that
repeat themselves has thousands of windows and few different transitions. Here these are found, and their
connections moved, in compiled code (`expectations/judging/columnar_moves.py`), and windows need not become
objects.

The contract:

- A hit gives what the judge gives: `tests/streaming/judging/test_judgement_cache.py` holds steps with windows
  as columns equal to steps by the rules, on random traffic, and on all cases and mutations.
- A window is judged here only if it is the only one of its connection in a step. All others, and those
  without a known transition, are returned, and the step judges them after these.
- Transitions are learned from hits of the judgement cache. Words are compared number by number, so no hash
  decides a verdict. A word is looked for near its place only, under a secret seed.
- It may be cleared at any time; it is when it is full.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.conversation.window import Window
from expectations.judging.columnar_words import (
    CONCERNS_MEMBER,
    IS_HEARTBEAT,
    IS_REQUEST,
    IS_RESPONSE,
    LONGEST_WORD,
    MISSED,
    UNKNOWN,
    WORD,
    Statements,
    Table,
    slot_of,
)
from expectations.judging.id_numbers import NO_ID
from expectations.judging.judge import Judge
from expectations.judging.symbol import Symbol
from streaming.judging.archive_count import ArchiveCount
from streaming.judging.columnar_part import Part
from streaming.judging.columnar_usage import said_together
from streaming.judging.into import Into
from streaming.judging.judgement_cache import Moved, Transition, first_responses, stored_counts
from streaming.judging.symbols import Symbols
from streaming.judging.usage import Speakers
from streaming.state.connection_layout import NOWHERE, ConnectionLayout

TRANSITIONS: Final = 1 << 16
"""Transitions that are kept."""
WORDS: Final = 1 << 21
"""Numbers of their words, 16 MiB."""
CODES: Final = 100_000
"""Codes of symbols and fingerprints that are numbered."""
_CAPTURED_AT: Final = PROGRESS_NUMBERS.index("captured_at")
_Integers = NDArray[np.int64]


class ColumnarCache:
    """Judges windows by transitions. `clears` counts how often it was full, `hits` the windows so judged."""

    def __init__(self, judge: Judge) -> None:
        """The judge names listeners; it judges nothing here."""
        self.clears = 0
        self.hits = 0
        self._judge = judge
        self._seed = np.uint64(secrets.randbits(64))
        self._numbers: dict[bytes, int] = {}
        self._transitions: list[Transition] = []
        self._table = Table(
            np.full(2 * TRANSITIONS, MISSED, np.int64),
            np.zeros(TRANSITIONS + 1, np.int64),
            np.empty(WORDS, np.int64),
        )
        self._word = np.empty(WORD, np.int64)

    def judge(
        self, said: Sequence[WindowColumns], symbols: Symbols[Symbol], into: Into, speakers: Speakers
    ) -> list[Window]:
        """Judge the windows that have a transition, and return the others."""
        left, begin = list[Window](), 0
        places = into.bucket.connections.places(b"".join(columns.ids for columns in said))
        for columns in said:
            own = places[begin : begin + len(columns)]
            begin += len(columns)
            if self._transitions and (own != NOWHERE).any():
                part = Part(columns, own, symbols.of_table(columns.statements), into)
                self._judge_part(part, speakers)
                left += columns.chosen(np.flatnonzero(part.group == MISSED)).windows()
            else:
                left += columns.windows()
        return left

    def _judge_part(self, part: Part, speakers: Speakers) -> None:
        part.move(self._statements(part), self._states(part), self._table, self._seed, self._word)
        hits = np.flatnonzero(part.group != MISSED)
        if not len(hits):
            return
        self.hits += len(hits)
        part.store(hits)
        bucket = part.into.bucket
        bucket.clock = max(bucket.clock, int(part.stored.progress[hits, _CAPTURED_AT].max()))
        for group in range(part.count):
            self._add_group(part, group)
        if part.into.counted is not None:
            self._count(part, part.into.counted, speakers)

    def _count(self, part: Part, counted: ArchiveCount, speakers: Speakers) -> None:
        """Add what is archived of the windows."""
        columns, connections = part.columns, part.into.bucket.connections
        clients = np.ascontiguousarray(part.stored.ids[:, 0])
        together, apart = said_together(columns, part.group, part.moves.groups, clients, self._seed)
        for said in together:
            place = int(part.stored.places[said.first])
            counted.add_said(said, place, connections, speakers, self._judge)
        for number in apart:
            row = connections.row(int(part.stored.places[number]))
            counted.add_stored(columns.window(number), row, connections, speakers, self._judge)

    def _add_group(self, part: Part, group: int) -> None:
        """Add what the windows of a group came to."""
        server, software, _, number, begin = part.moves.groups[group].tolist()
        transition, tally = self._transitions[number], part.into.tally
        counts = tally.stored.get((server, software))
        if counts is None:
            layout = part.into.bucket.connections.layout
            counts = stored_counts(server, software, layout, self._judge, tally)
        sums = part.moves.sums[begin : begin + len(transition.checks)].tolist()
        for checks, count in zip(transition.checks, sums, strict=True):
            counts[checks] = counts.get(checks, 0) + count
        windows = np.flatnonzero(part.group == group) if transition.answered else ()
        for window in windows:
            key, responses = part.columns.key(int(window)), part.into.responses
            if transition.answered <= responses.known(key):
                break
            responses.add(key, first_responses(part.columns.window(int(window))))

    def _statements(self, part: Part) -> Statements:
        """Lay out what the symbols of a part's statements say."""
        rows = np.array(
            [
                (
                    self._numbers.get(symbol.code, UNKNOWN) if symbol.code else UNKNOWN,
                    symbol.client,
                    symbol.instance,
                    symbol.member,
                    (IS_RESPONSE if symbol.is_response else 0)
                    | (IS_HEARTBEAT if symbol.is_heartbeat else 0)
                    | (IS_REQUEST if symbol.movement.is_request else 0)
                    | (CONCERNS_MEMBER if symbol.concerns_member else 0),
                    *part.change_of(symbol),
                )
                for symbol in part.symbols
            ],
            np.int64,
        )
        return Statements(*np.ascontiguousarray(rows.T))

    def _states(self, part: Part) -> _Integers:
        """Return the numbers of the fingerprints of a part's connections, UNKNOWN for those without one."""
        layout = part.into.bucket.connections.layout
        tables = layout.fingerprints.stored, layout.member_fingerprints.stored
        columns = [part.rows["fingerprint"], part.rows["member_fingerprint"]]
        states = np.empty((len(part.columns), len(tables)), np.int64)
        for at, (table, places) in enumerate(zip(tables, columns, strict=True)):
            used, inverse = np.unique(places, return_inverse=True)
            numbers = [
                UNKNOWN if place == NOWHERE else self._numbers.get(table[place], UNKNOWN)
                for place in used.tolist()
            ]
            states[:, at] = np.array(numbers, np.int64)[inverse]
        return states

    def learn(self, moved: Moved, layout: ConnectionLayout) -> None:
        """Remember the transition of a window that the judgement cache has judged."""
        row, said = moved.row, moved.said
        if len(said) > LONGEST_WORD:
            return
        if len(self._numbers) > CODES or self._is_full():
            self._clear()
        state = layout.fingerprints.stored[row.fingerprint]
        word = [self._number(state), 0]
        for symbol in said:
            if symbol.concerns_member:
                word[1] = self._number(layout.member_fingerprints.stored[row.member_fingerprint])
            client = NO_ID if symbol.client == row.client else symbol.client
            instance = NO_ID if symbol.instance == row.instance else symbol.instance
            word += self._number(symbol.code), client, instance
        self._word[: len(word)] = word
        slot = slot_of(self._table, self._seed, self._word, len(word))
        if slot == MISSED or self._table.slots[slot] != MISSED:
            return
        number = len(self._transitions)
        begin = int(self._table.begins[number])
        self._table.words[begin : begin + len(word)] = word
        self._table.begins[number + 1] = begin + len(word)
        self._table.slots[slot] = number
        self._transitions.append(moved.transition)

    def _number(self, code: bytes) -> int:
        return self._numbers.setdefault(code, UNKNOWN + 1 + len(self._numbers))

    def _is_full(self) -> bool:
        count = len(self._transitions)
        return count >= TRANSITIONS or int(self._table.begins[count]) + WORD > WORDS

    def _clear(self) -> None:
        self._numbers.clear()
        self._transitions.clear()
        self._table.slots[:] = MISSED
        self.clears += 1
