"""Routine: what plain frames and heartbeats come to, known because their like was judged before.

Most connections say what others said before them, or they themselves in the batch before. Whoever stands
as another one stood, and says what that one said, is told the same. It is tried once, on a connection that
is put together for it, and remembered if it brings no news and leaves the connection as it was, but for
what moves with every frame. The connection itself need not even be read.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, NamedTuple

from expectations.conversation.connection_window import Moment
from expectations.conversation.observation import Observation
from expectations.conversation.unanswered import ApiVersion
from expectations.identity.shown import seen_again
from expectations.judging.fingerprint import Saying
from expectations.judging.judge import Judge
from expectations.judging.membership import NO_MEMBER
from expectations.judging.outcome import Outcome
from expectations.judging.own_ids import NO_ID
from streaming.judging.bucket_input import FoldedWindow
from streaming.judging.tally import Judged, Tally
from streaming.state.connection_layout import NOWHERE, Row, waiting_of
from streaming.state.connections import Connections

MOST_REMEMBERED: Final = 500_000
"""Exchanges that are remembered, each in some 150 bytes; when there are more, all are forgotten."""
LIKENESS_BYTES: Final = 16
_NO_LIKENESS: Final = b"\xc1"
"""A byte with which nothing begins that is written in msgpack."""
_FOREIGN: Final = struct.Struct("<cqq")


class _Sight(NamedTuple):
    """A window of a connection that is not read, and where that stands."""

    window: FoldedWindow
    place: int
    row: Row
    likeness: bytes


class _Remembered(NamedTuple):
    """What observations came to, one after the other, and the API versions that were answered."""

    judged: tuple[Judged, ...]
    answered: frozenset[ApiVersion]


class Routine:
    """Judges what is routine, and leaves the rest to the judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._remembered: dict[bytes, _Remembered | None] = {}
        self._judged: dict[tuple[object, ...], Judged] = {}
        self._outcomes: dict[_Remembered, _Remembered] = {}

    def hear(
        self, connections: Connections, window: FoldedWindow, answered: set[ApiVersion], tally: Tally
    ) -> int:
        """Judge a window if that is routine; else nothing has changed.

        Gives the connection's latest capture time, 0 if it was not routine. `answered` are the API versions
        of which it was told that the server answers them.
        """
        sight = _sight(connections, window)
        if sight is None:
            return 0
        remembered = self._recall(connections, sight)
        if remembered is None or not remembered.answered <= answered:
            return 0
        moved = _moved(sight, connections)
        connections.move(sight.place, moved)
        for judged, moment in zip(remembered.judged, window.brief.moments, strict=True):
            tally.repeat(judged, moment.count)
        return moved.latest

    def _recall(self, connections: Connections, sight: _Sight) -> _Remembered | None:
        if sight.likeness not in self._remembered:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[sight.likeness] = self._try(connections, sight)
        return self._remembered[sight.likeness]

    def _try(self, connections: Connections, sight: _Sight) -> _Remembered | None:
        """Judge the window on a connection made for it."""
        stored, window = connections.content(sight.place), sight.window
        state = connections.layout.read(window.connection, sight.row, stored)
        observed = window.observed(window.brief.moments)
        outcomes = self._judge.hear_each(state, observed)
        if connections.layout.content(state) != stored:
            return None
        if not all(map(_is_even, observed.observations, outcomes)):
            return None
        answered = frozenset[ApiVersion]().union(*(outcome.answered for outcome in outcomes))
        came_to = _Remembered(tuple(map(self._same, observed.observations, outcomes)), answered)
        return self._outcomes.setdefault(came_to, came_to)

    def _same(self, observation: Observation, outcome: Outcome) -> Judged:
        """Give one object for all that comes to the same."""
        judged = observation.api_key, observation.kind, tuple(outcome.checks)
        return self._judged.setdefault(judged, Judged(*judged))


def _sight(connections: Connections, window: FoldedWindow) -> _Sight | None:
    """Look at a window; None where there is more to it than plain frames, and heartbeats of its one member.

    Nor is it looked at where the connection is new, was read, or has heard a part of it.
    """
    place = connections.place(window.connection)
    if place == NOWHERE or not window.brief.moments:
        return None
    row = connections.row(place)
    if window.first_sequence <= row.heard or (row.loss and _may_answer_before(row.loss, window)):
        return None
    said, has_heartbeats = [], False
    for moment in window.brief.moments:
        saying = window.sayings[moment.saying]
        if saying.is_heartbeat and saying.member in (NO_MEMBER, row.member):
            has_heartbeats = True
        elif not saying.is_plain:
            return None
        said.append(saying.likeness)
        client, instance = saying.client, saying.instance
        if client not in (NO_ID, row.client) or instance not in (NO_ID, row.instance):
            said.append(_foreign(saying, row))
    if has_heartbeats:
        if row.membership == NOWHERE or not _are_in_turn(window):
            return None
        said.append(connections.layout.memberships.value(row.membership))
    standing = connections.layout.standings.value(row.standing)
    likeness = hashlib.blake2b(b"".join([standing, *said]), digest_size=LIKENESS_BYTES).digest()
    return _Sight(window, place, row, likeness)


def _foreign(saying: Saying, row: Row) -> bytes:
    """Name the IDs that are not the connection's own."""
    client, instance = saying.client, saying.instance
    return _FOREIGN.pack(
        _NO_LIKENESS,
        NO_ID if client == row.client else client,
        NO_ID if instance == row.instance else instance,
    )


def _are_in_turn(window: FoldedWindow) -> bool:
    """Whether each heartbeat is answered before the next one, and as often as it was sent."""
    waiting: Moment | None = None
    for moment in window.brief.moments:
        saying = window.sayings[moment.saying]
        if not saying.is_heartbeat:
            continue
        if not saying.is_answer:
            if waiting is not None:
                return False
            waiting = moment
        elif waiting is None or not _is_answer_to(moment, waiting):
            return False
        else:
            waiting = None
    return waiting is None


def _is_answer_to(answer: Moment, request: Moment) -> bool:
    return (answer.paired_sequence, answer.count) == (request.first_sequence, request.count)


def _may_answer_before(loss: int, window: FoldedWindow) -> bool:
    """Whether an answer may belong to a request from before a loss."""
    return any(
        window.sayings[moment.saying].is_answer and moment.paired_sequence <= loss
        for moment in window.brief.moments
    )


def _is_even(observation: Observation, outcome: Outcome) -> bool:
    """Whether each frame came to one check of each rule that was asked, and to nothing else."""
    is_news = outcome.findings or outcome.claims or outcome.offences
    return not is_news and all(count == observation.count for count in outcome.checks.values())


def _moved(sight: _Sight, connections: Connections) -> Row:
    """Move what every frame moves, as the conversation and its sightings would."""
    row, (brief, sayings) = sight.row, sight.window
    requests = [moment for moment in brief.moments if not sayings[moment.saying].is_answer]
    client_until, client_before = _shown_again(row.client_until, row.client_before, requests)
    instance_until, instance_before = _shown_again(row.instance_until, row.instance_before, requests)
    beats = [request for request in requests if sayings[request.saying].is_heartbeat]
    member_until, member_before = _shown_again(row.member_until, row.member_before, beats)
    # Made anew: to replace fields of a named tuple takes three times as long.
    return Row(
        max([row.latest, *[moment.last_captured_at for moment in brief.moments]]),
        max([row.heard, *[moment.last_sequence for moment in brief.moments]]),
        row.loss,
        client_until,
        client_before,
        instance_until,
        instance_before,
        member_until,
        member_before,
        beats[-1].first_sequence if beats else row.beat,
        beats[-1].last_captured_at if beats else row.beat_at,
        row.client,
        row.instance,
        row.member,
        row.end,
        row.server,
        row.software,
        _waiting(sight, connections),
        row.standing,
        row.membership,
        True,
    )


def _shown_again(until: int, before: int, requests: list[Moment]) -> tuple[int, int]:
    """Give when an identity was shown last, and when before, once it was shown with requests, too."""
    if until != NOWHERE:
        for request in requests:
            until, before = seen_again(until, before, request)
    return until, before


def _waiting(sight: _Sight, connections: Connections) -> int:
    """Give the place of the requests that wait once frames were heard, which are all certain and matched."""
    brief, sayings = sight.window
    more: dict[ApiVersion, int] = {}
    for moment in brief.moments:
        said = sayings[moment.saying]
        more[said.asked] = more.get(said.asked, 0) + said.owed * moment.count
    if not any(more.values()):
        return sight.row.unanswered
    table = connections.layout.waiting
    counts = dict(table.value(sight.row.unanswered))
    for asked, count in more.items():
        counts[asked] = counts.get(asked, 0) + count
    return table.place(waiting_of(counts))
