"""The judgement cache: an automaton that is built lazily, as regular expression engines build theirs.

    regular expression    here
    state                 fingerprint of a connection, and of its only member where it is the sender
    input                 word: the symbols of a window's statements, in order
    transition            the checks of each observation, and the state afterwards

The automaton itself is the rules and the facts: immutable, and slow, since a transition is computed by
building the connection and asking the rules. The cache holds computed transitions. It keeps those only that
lead back to their state and bring no news, so a window with a cached transition moves the connection's
progress and adds to counts; its content is neither read nor written. Most windows of steady traffic are of
that kind.

The contract:

- A hit gives what the judge gives: `tests/streaming/judging/test_judgement_cache.py` holds both equal on
  random traffic, and on all cases and mutations.
- A rule that declares `uses_progress` is not cached: a window that it is asked about goes to the judge.
- The cache belongs to one worker and one query, and may be cleared at any time.
- CAPACITY is its size in transitions. When it is full it is cleared, and `clears` counts that. It is never
  given up, however often it is cleared: otherwise one client with ever new words could switch it off.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from expectations.conversation.in_flight import ApiVersion
from expectations.conversation.observation import Observation
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.progress_numbers import advanced
from expectations.conversation.window import Window
from expectations.identity.server_claim import is_remembered
from expectations.judging.id_numbers import NO_ID
from expectations.judging.judge import Judge
from expectations.judging.outcome import Outcome
from expectations.judging.symbol import Symbol
from streaming.judging.server_responses import ServerResponses
from streaming.judging.tally import FrameChecks, Tally
from streaming.state.connection_layout import NOWHERE, ConnectionLayout, Row
from streaming.state.connections import Connections

CAPACITY: Final = 500_000
"""Transitions that are kept, of some 150 bytes each: 75 MB in a worker."""
_DIGEST_BYTES: Final = 16
_FOREIGN_IDS: Final = struct.Struct("<cqq")
_NO_CODE: Final = b"\xc1"
"""A byte that no msgpack begins with, so no symbol's code does."""


class Transition(NamedTuple):
    """The checks of each observation of a window, and the API versions that were answered in it."""

    checks: tuple[FrameChecks, ...]
    answered: frozenset[ApiVersion]


class Moved(NamedTuple):
    """A connection that a window has moved: its latest capture time, and its row before.

    `said` are the symbols of the window's occurrences.
    """

    captured_at: int
    row: Row
    said: Sequence[Symbol]
    transition: Transition


class _Step(NamedTuple):
    """A window in the state of its stored connection: where that is stored, its row, and the cache's key.

    `said` are the symbols of the occurrences.
    """

    window: Window
    said: list[Symbol]
    place: int
    row: Row
    key: bytes


class JudgementCache:
    """Judges windows by cached transitions. `clears` counts how often it was full."""

    def __init__(self, judge: Judge) -> None:
        self.clears = 0
        self._judge = judge
        self._transitions: dict[bytes, Transition | None] = {}
        # Transitions are many and their parts few: equal parts are one object.
        self._checks: dict[tuple[object, ...], FrameChecks] = {}
        self._shared: dict[Transition, Transition] = {}

    def judge(
        self,
        connections: Connections,
        window: Window,
        symbols: Mapping[int, Symbol],
        responses: ServerResponses,
        tally: Tally,
    ) -> Moved | None:
        """Judge a window if its transition is cached or can be; else change nothing and return None.

        What the server responded to is added to `responses`.
        """
        step = _step_of(connections, window, symbols)
        if step is None:
            return None
        if step.key not in self._transitions:
            self._make_room()
            self._transitions[step.key] = self._compute(connections, step)
        transition = self._transitions[step.key]
        if transition is None:
            return None
        if not transition.answered <= responses.known(window.connection):
            responses.add(window.connection, first_responses(window))
        place = step.row.server, step.row.software
        counts = tally.stored.get(place)
        if counts is None:
            counts = stored_counts(*place, connections.layout, self._judge, tally)
        for checks, occurrence in zip(transition.checks, window.occurrences, strict=True):
            counts[checks] = counts.get(checks, 0) + occurrence.count
        return Moved(_advance(connections, step), step.row, step.said, transition)

    def _make_room(self) -> None:
        if len(self._transitions) >= CAPACITY:
            self._transitions.clear()
            self.clears += 1

    def _compute(self, connections: Connections, step: _Step) -> Transition | None:
        """Ask the judge, on a copy of the connection. None if the transition cannot be cached."""
        stored = connections.content(step.place)
        state = connections.layout.read(step.window.connection.id, step.row, stored)
        observations = step.window.observations
        outcomes = self._judge.judge_each(state, step.window)
        if any(self._judge.uses_progress(each, state.conversation) for each in observations):
            return None
        if connections.layout.content(state) != stored:
            return None
        if not all(map(_is_plain, observations, outcomes)):
            return None
        answered = frozenset[ApiVersion]().union(*(outcome.answered for outcome in outcomes))
        transition = Transition(tuple(map(self._frame_checks, observations, outcomes)), answered)
        return self._shared.setdefault(transition, transition)

    def _frame_checks(self, observation: Observation, outcome: Outcome) -> FrameChecks:
        checks = observation.api_key, observation.api_version, observation.kind, tuple(outcome.checks)
        return self._checks.setdefault(checks, FrameChecks(*checks))


def _step_of(connections: Connections, window: Window, symbols: Mapping[int, Symbol]) -> _Step | None:
    """Look a window up without reading its connection. None if the judge must see it.

    The judge must see it if the connection is new, was read before or has no fingerprint, if part of the
    window was judged before, or if a statement has no symbol.
    """
    place = connections.place(window.connection.id)
    if place == NOWHERE or not window.occurrences:
        return None
    row = connections.row(place)
    if row.fingerprint == NOWHERE:
        return None
    said = [symbols[number] for number in window.numbers]
    _, sequence, loss, *_ = row.progress
    if window.first_sequence <= sequence or (loss and _may_answer_before(loss, window, said)):
        return None
    word = _word_of(said, row)
    if word is None:
        return None
    layout = connections.layout
    if any(symbol.concerns_member for symbol in said):
        if row.member_fingerprint == NOWHERE or not _are_in_turn(window, said):
            return None
        word.append(layout.member_fingerprints.value(row.member_fingerprint))
    word[0] = layout.fingerprints.value(row.fingerprint)
    key = hashlib.blake2b(b"".join(word), digest_size=_DIGEST_BYTES).digest()
    return _Step(window, said, place, row, key)


def _word_of(said: Iterable[Symbol], row: Row) -> list[bytes] | None:
    """Return the word of a window, None if a statement has no symbol or another member sends.

    Its first element is left to the state.
    """
    word = [b""]
    for symbol in said:
        if not symbol.code or symbol.member not in (NO_ID, row.member):
            return None
        word.append(symbol.code)
        client, instance = symbol.client, symbol.instance
        if client not in (NO_ID, row.client) or instance not in (NO_ID, row.instance):
            foreign_client = NO_ID if client == row.client else client
            foreign_instance = NO_ID if instance == row.instance else instance
            word.append(_FOREIGN_IDS.pack(_NO_CODE, foreign_client, foreign_instance))
    return word


def _are_in_turn(window: Window, said: Iterable[Symbol]) -> bool:
    """Whether each heartbeat is answered before the next one, as often as it was sent."""
    waiting: Occurrence | None = None
    for symbol, occurrence in zip(said, window.occurrences, strict=True):
        if not symbol.is_heartbeat:
            continue
        if not symbol.is_response:
            if waiting is not None:
                return False
            waiting = occurrence
        elif waiting is None or not _answers(occurrence, waiting):
            return False
        else:
            waiting = None
    return waiting is None


def _answers(response: Occurrence, request: Occurrence) -> bool:
    return (response.paired_sequence, response.count) == (request.first_sequence, request.count)


def _may_answer_before(loss: int, window: Window, said: Iterable[Symbol]) -> bool:
    """Whether a response may belong to a request from before a loss."""
    return any(
        symbol.is_response and occurrence.paired_sequence <= loss
        for symbol, occurrence in zip(said, window.occurrences, strict=True)
    )


def stored_counts(
    server: int, software: int, layout: ConnectionLayout, judge: Judge, tally: Tally
) -> dict[FrameChecks, int]:
    """Return the counts of cached checks of stored connections, by the places of server and software."""
    listener = judge.listener(layout.servers.value(server)[1])
    counts = tally.stored[server, software] = tally.cached(listener, layout.software(software))
    return counts


def first_responses(window: Window) -> dict[ApiVersion, int]:
    """Return when each API version was first answered in a window."""
    first: dict[ApiVersion, int] = {}
    for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
        statement, at = window.statements[number], occurrence.first_captured_at
        version = statement.api_key, statement.api_version
        if statement.is_matched and is_remembered(*version):
            first[version] = min(at, first.get(version, at))
    return first


def _is_plain(observation: Observation, outcome: Outcome) -> bool:
    """Whether each frame came to one check of each rule that was asked, and to nothing else."""
    is_news = outcome.findings or outcome.claims or outcome.offences
    return not is_news and all(count == observation.count for count in outcome.checks.values())


def _advance(connections: Connections, step: _Step) -> int:
    """Move the progress of a stored connection by a window. Returns its latest capture time."""
    row, layout, in_flight = step.row, connections.layout, step.row.in_flight
    movements = [symbol.movement for symbol in step.said]
    numbers, added = advanced(row.progress, movements, step.window.occurrences)
    if any(added.values()):
        in_flight = layout.in_flight_after(in_flight, added)
    connections.advance(step.place, numbers, in_flight)
    return numbers[0]
