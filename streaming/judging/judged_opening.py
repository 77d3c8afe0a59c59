"""Judges one opening by the rules, and says what came of it; makes openings to try a form with."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

from decoders.frame.record import Kind
from expectations.conversation.bodies import Advertisement, SoftwareClaim
from expectations.conversation.in_flight import ApiVersion
from expectations.conversation.occurrence import Evidence, Occurrence
from expectations.conversation.window import ConnectionKey, Window
from expectations.identity.claim import Claim, united
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from streaming.judging.change_count import Before, ChangeCount
from streaming.judging.changes import Changes
from streaming.judging.opening import Opening
from streaming.judging.opening_symbol import OpeningSymbol
from streaming.judging.tally import Check, Sent, is_advertised

LONG_PAUSE: Final = 1 << 40
"""A quarter of an hour, in nanoseconds: longer than whatever may take its time in an opening."""
SHORT_PAUSE: Final = 1
_LEAST: Final = 1 << 40
"""Numbers of probes are larger, so that no other number is equal to one by chance."""


class JudgedOpening(NamedTuple):
    """What came of an opening.

    `frames` counts requests and responses by API key, `requests` by software and API version. `answered` has
    the time of the first response of each API version. `claims` are united. `software` and `named` are the
    client software and the client ID after each observation. `changes` are those of each window, if windows
    matter. `state` is None if the connection has ended. `advertised` is what the server advertised last, and
    when.
    """

    frames: dict[tuple[int, Kind], int]
    requests: dict[Sent, int]
    checks: dict[Check, int]
    answered: dict[ApiVersion, int]
    claims: list[Claim]
    software: list[SoftwareClaim | None]
    named: list[str | None]
    changes: Changes
    state: ConnectionState | None
    advertised: tuple[Advertisement, int] | None = None


def judge_opening(judge: Judge, opening: Opening, before: int = 0) -> JudgedOpening | None:
    """Judge an opening on a connection of its own. Returns None if it must be judged each time.

    What came of the first `before` observations is left out.

    That is so if there is a finding, if a rule is asked that uses the progress, and if there is a second
    member: for how long the first was silent is a number that a rule compares with others.
    """
    state = open_connection(opening.key)
    judged = JudgedOpening({}, {}, {}, {}, [], [], [], Changes(), state)
    whole, changes = Outcome(), _Changes(opening, before)
    advertised: tuple[Advertisement, int] | None = None
    for place, (symbol, occurrence) in enumerate(opening.said, start=1):
        statement = symbol.statement
        window = Window(opening.key, [0], [occurrence], {0: statement})
        (outcome,) = judge.judge_each(state, window)
        (observation,) = window.observations
        is_news = bool(outcome.findings or outcome.offences)
        if is_news or judge.uses_progress(observation, state.conversation) or _has_members(state):
            return None
        if place <= before:
            changes.begin(state)
            continue
        whole.add(outcome)
        if statement.kind in (Kind.REQUEST, Kind.RESPONSE):
            frames = statement.api_key, statement.kind
            judged.frames[frames] = judged.frames.get(frames, 0) + 1
        if statement.kind is Kind.REQUEST:
            sent = state.conversation.software, statement.api_key, statement.api_version
            judged.requests[sent] = judged.requests.get(sent, 0) + 1
        if is_advertised(statement.body) and statement.is_matched:
            advertised = statement.body, occurrence.last_captured_at
        judged.software.append(state.conversation.software)
        judged.named.append(state.conversation.client_id or None)
        changes.add(len(judged.named), state)
    return judged._replace(
        checks=whole.checks,
        answered=whole.answered,
        claims=united(whole.claims),
        changes=changes.report(),
        state=None if state.conversation.closed else state,
        advertised=advertised,
    )


class _Changes:
    """Collects the changes of the windows of an opening."""

    def __init__(self, opening: Opening, before: int) -> None:
        self._opening = opening
        self._said = opening.said[before:]
        self._changes = ChangeCount()
        self._before = Before()
        self._begin = 0

    def begin(self, state: ConnectionState) -> None:
        """Begin with a connection as it is now."""
        if self._opening.ends:
            self._before = Before.of(state, self._opening.listener)

    def add(self, count: int, state: ConnectionState) -> None:
        """Add the window that ends after `count` observations, if one does."""
        opening = self._opening
        if count not in opening.ends:
            return
        said = self._said[self._begin : count]
        window = Window(
            opening.key,
            list(range(len(said))),
            [occurrence for _, occurrence in said],
            {number: symbol.statement for number, (symbol, _) in enumerate(said)},
        )
        self._changes.add(window, self._before, state, opening.listener)
        self._before, self._begin = Before.of(state, opening.listener), count

    def report(self) -> Changes:
        """Return the changes."""
        return self._changes.report()


def _has_members(state: ConnectionState) -> bool:
    return len(state.conversation.members.known) > 1


def probe_of(opening: Opening, pause: int, *, keeps_server: bool) -> Opening:
    """Return an opening of the same form whose own values are found nowhere else.

    Between frames that were not captured at one moment there are `pause` to twice as many nanoseconds.
    `keeps_server` is given if the server is known by its address.
    """
    random = Random(pause)
    clients = [f"probe-client-{_number(random)}" for _ in opening.clients]
    identifiers = [random.randbytes(16) for _ in opening.identifiers]
    given = opening.key
    key = ConnectionKey(
        random.randbytes(16),
        f"probe-cluster-{_number(random)}",
        f"probe-host-{_number(random)}:{_number(random)}",
        given.server if keeps_server else f"probe-server-{_number(random)}",
        _number(random),
    )
    said = _renamed(opening, clients, identifiers, random, pause)
    listener = f"probe-listener-{_number(random)}"
    return Opening(key, opening.form, said, clients, identifiers, listener, opening.ends)


def _renamed(
    opening: Opening, clients: Sequence[str], identifiers: Sequence[bytes], random: Random, pause: int
) -> list[tuple[OpeningSymbol, Occurrence]]:
    client_of = dict(zip(opening.clients, clients, strict=True))
    identifier_of = dict(zip(opening.identifiers, identifiers, strict=True))
    sequences = {0: 0}
    said: list[tuple[OpeningSymbol, Occurrence]] = []
    sequence, at, given_at = _number(random), _number(random) << 16, 0
    for symbol, given in opening.said:
        sequence += _number(random)
        if given.first_captured_at > given_at:
            at += random.randrange(pause, 2 * pause)
        given_at = given.first_captured_at
        sequences[given.first_sequence] = sequence
        statement = symbol.renamed(
            client_of[symbol.client_id] if symbol.client_id is not None else None,
            tuple(identifier_of[identifier] for identifier in symbol.identifiers),
        )
        occurrence = Occurrence(
            sequence,
            sequence,
            at,
            at,
            _evidence(random),
            correlation_id=None if given.correlation_id is None else _number(random),
            paired_sequence=sequences[given.paired_sequence],
        )
        said.append((OpeningSymbol(statement, lambda _: 1), occurrence))
    return said


def _evidence(random: Random) -> Evidence:
    where: Any = f"probe-{_number(random)}", random.randbytes(16), *(_number(random) for _ in range(3))
    return Evidence(*where)


def _number(random: Random) -> int:
    return random.randrange(_LEAST, 2 * _LEAST)
