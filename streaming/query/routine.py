"""Routine: what plain frames come to, known because their like was judged before.

Most connections say what others said before them, or they themselves in the batch before. Whoever stands
as another one stood, and says what that one said, is told the same. It is tried once, on a connection that
is put together for it, and remembered if it brings no news and leaves the connection as it was, but for
what moves with every frame. Where there is nothing else, the connection need not even be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.observation import ConnectionWindow, Heartbeat, HeartbeatAnswer, Observation
from expectations.conversation.unanswered import ApiVersion
from expectations.identity.sightings import seen_again
from expectations.judge import Judge
from expectations.outcome import Outcome
from expectations.standing import is_plain, likeness_of_all, standing_of
from streaming.query.connections import Connections
from streaming.query.stored_connection import NOWHERE, Row, waiting_of
from streaming.query.tally import Judged, Tally

MOST_REMEMBERED: Final = 100_000
"""Exchanges that are remembered; when there are more, all are forgotten."""


class _Sight(NamedTuple):
    """A window of a connection that is not read, and where that stands."""

    window: ConnectionWindow
    place: int
    row: Row
    standing: bytes


class _Remembered(NamedTuple):
    """What plain observations came to, one after the other, and the API versions that were answered."""

    judged: tuple[Judged, ...]
    answered: frozenset[ApiVersion]


class Routine:
    """Judges what is routine, and leaves the rest to the judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._remembered: dict[bytes, _Remembered | None] = {}
        self._judged: dict[tuple[object, ...], Judged] = {}

    def hear(
        self, connections: Connections, window: ConnectionWindow, answered: set[ApiVersion], tally: Tally
    ) -> int:
        """Judge a window if that is routine; else nothing has changed.

        Gives the connection's latest capture time, 0 if it was not routine. `answered` are the API versions
        of which it was told that the server answers them.
        """
        sight = _sight(connections, window)
        if sight is None:
            return 0
        plain, heartbeats = _parted(window.observations)
        remembered = self._recall(connections, sight, plain) if plain else None
        if remembered is None or not remembered.answered <= answered:
            return 0
        moved = _moved(sight, connections)
        if not heartbeats:
            connections.move(sight.place, moved)
        elif not self._hear_heartbeats(connections, sight, heartbeats, answered, tally):
            return 0
        else:
            connections.layout.move(connections[window.connection], moved)
        for judged, observation in zip(remembered.judged, plain, strict=True):
            tally.repeat(judged, observation.count)
        return moved.latest

    def _recall(
        self, connections: Connections, sight: _Sight, plain: list[Observation]
    ) -> _Remembered | None:
        key = sight.standing + likeness_of_all(plain)
        if key not in self._remembered:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            are_plain = all(map(is_plain, plain))
            self._remembered[key] = self._try(connections, sight, plain) if are_plain else None
        return self._remembered[key]

    def _try(self, connections: Connections, sight: _Sight, plain: list[Observation]) -> _Remembered | None:
        """Judge what is plain, as if there was nothing else, on a connection made for it."""
        stored = connections.content(sight.place)
        state = connections.layout.read(sight.window.connection, sight.row, stored)
        outcomes = self._judge.hear_each(state, _part(sight.window, plain))
        if connections.layout.content(state) != stored or not all(map(_is_even, plain, outcomes)):
            return None
        answered = frozenset[ApiVersion]().union(*(outcome.answered for outcome in outcomes))
        return _Remembered(tuple(map(self._same, plain, outcomes)), answered)

    def _same(self, observation: Observation, outcome: Outcome) -> Judged:
        """Give one object for all that comes to the same."""
        judged = observation.api_key, observation.kind, tuple(outcome.checks)
        return self._judged.setdefault(judged, Judged(*judged))

    def _hear_heartbeats(
        self,
        connections: Connections,
        sight: _Sight,
        heartbeats: list[Observation],
        answered: set[ApiVersion],
        tally: Tally,
    ) -> bool:
        """Let the judge hear the heartbeats alone, unless that changes where the connection stands."""
        state = connections[sight.window.connection]
        outcomes = self._judge.hear_each(state, _part(sight.window, heartbeats))
        is_told = all(outcome.answered <= answered for outcome in outcomes)
        if not is_told or standing_of(state) != sight.standing:
            connections.put_back(sight.window.connection, sight.place)
            return False
        tally.count(heartbeats)
        for outcome in outcomes:
            tally.add(outcome)
        return True


def _sight(connections: Connections, window: ConnectionWindow) -> _Sight | None:
    """Look at a window; None if the connection is new, was read or has heard a part of it."""
    place, said = connections.place(window.connection), window.observations
    if place == NOWHERE or not said:
        return None
    row = connections.row(place)
    if said[0].first_sequence <= row.heard or (row.loss and _may_answer_before(row.loss, said)):
        return None
    return _Sight(window, place, row, connections.layout.standings.value(row.standing))


def _parted(said: list[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Part what has no body, and may be plain, from heartbeats; neither, where there is anything else."""
    bodiless = [seen for seen in said if seen.body is None]
    if len(bodiless) == len(said):
        return bodiless, []
    heartbeats = [seen for seen in said if _is_heartbeat(seen)]
    return (bodiless, heartbeats) if len(bodiless) + len(heartbeats) == len(said) else ([], [])


def _is_heartbeat(observation: Observation) -> bool:
    return observation.is_clean and isinstance(observation.body, Heartbeat | HeartbeatAnswer)


def _may_answer_before(loss: int, said: Sequence[Observation]) -> bool:
    """Whether an answer may belong to a request from before a loss."""
    return any(seen.kind is Kind.RESPONSE and seen.paired_sequence <= loss for seen in said)


def _part(window: ConnectionWindow, observations: list[Observation]) -> ConnectionWindow:
    return msgspec.structs.replace(window, observations=observations)


def _is_even(observation: Observation, outcome: Outcome) -> bool:
    """Whether each frame came to one check of each rule that was asked, and to nothing else."""
    is_news = outcome.findings or outcome.claims or outcome.offences
    return not is_news and all(count == observation.count for count in outcome.checks.values())


def _moved(sight: _Sight, connections: Connections) -> Row:
    """Move what every frame moves, as the conversation and its sightings would."""
    row, said = sight.row, sight.window.observations
    client, instance = (row.client_until, row.client_before), (row.instance_until, row.instance_before)
    latest, heard = row.latest, row.heard
    for seen in said:
        latest = max(latest, seen.last_captured_at)
        heard = max(heard, seen.last_sequence)
        if seen.kind is Kind.REQUEST:
            client = client if row.client_until == NOWHERE else seen_again(*client, seen)
            instance = instance if row.instance_until == NOWHERE else seen_again(*instance, seen)
    return row._replace(
        latest=latest,
        heard=heard,
        client_until=client[0],
        client_before=client[1],
        instance_until=instance[0],
        instance_before=instance[1],
        unanswered=_waiting(row.unanswered, said, connections),
        stirred=True,
    )


def _waiting(place: int, said: Sequence[Observation], connections: Connections) -> int:
    """Give the place of the requests that wait once frames were heard, which are all certain and matched."""
    more: dict[ApiVersion, int] = {}
    for seen in said:
        asked, count = (seen.api_key, seen.api_version), seen.count
        if seen.kind is Kind.RESPONSE:
            more[asked] = more.get(asked, 0) - count
        elif seen.owes_answer:
            more[asked] = more.get(asked, 0) + count
    if not any(more.values()):
        return place
    table = connections.layout.waiting
    counts = dict(table.value(place))
    for asked, count in more.items():
        counts[asked] = counts.get(asked, 0) + count
    return table.place(waiting_of(counts))
