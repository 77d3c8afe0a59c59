"""Folding: equal statements of a window become one observation with a count.

Steady traffic repeats the same API, version, header and identifiers. Rules need the first occurrence of a
statement and how often it came back. Folding changes no verdict, whatever the size of the window:

- The first occurrence of a statement, in this window or as far as earlier ones are remembered, stays alone,
  so that "the first request" and "the first offence" keep their own sequence.
- Repeats are gathered only until something new is said. A first occurrence, or an observation with a body, a
  failure or an event, may change the facts by which later repeats are judged, so it starts a new gathering.
- Heartbeats are gathered only while each is answered before the next and equals the one before it, since the
  verdict on a heartbeat depends on the previous one.
- A request is gathered only if its response is in the window too, or none is expected, and a response only
  with responses to the same gathering. A rule that waits for the response to a request therefore finds it, in
  this window or a later one: `paired_sequence` is then the first sequence of the gathering.

A repeat changes no fact. It only adds to counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS, JOINING
from expectations.conversation.bodies import (
    Body,
    ClusterDescription,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
)
from expectations.conversation.observation import Observation
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.statement import Statement


def fold(observations: Iterable[Observation], said: dict[Statement, int] | None = None) -> list[Observation]:
    """Fold one connection's observations of a window, given in sequence order.

    `said` maps statements of earlier windows to the sequence of their first occurrence; those of this window
    are added. Records that come again, from a source that is read twice, are dropped.
    """
    given = list(_once(observations))
    folding = _Folding(given, {} if said is None else said)
    for observation in given:
        folding.add(observation)
    return folding.folded


def _once(observations: Iterable[Observation]) -> Iterator[Observation]:
    latest = 0
    for observation in observations:
        if observation.first_sequence > latest:
            latest = observation.last_sequence
            yield observation


class _Folding:
    """The folding of one window.

    `_gatherings` maps a statement and the request it answers to the index of the observation that repeats
    still join. `_joined` maps the sequence of a request to the first sequence of its gathering.
    """

    def __init__(self, observations: list[Observation], said: dict[Statement, int]) -> None:
        self._said = said
        self.folded: list[Observation] = []
        self._answered = {seen.paired_sequence for seen in observations if seen.is_matched}
        self._seen: set[Statement] = set()
        self._gatherings: dict[tuple[Statement, int], int] = {}
        self._joined: dict[int, int] = {}
        self._described: ClusterDescription | None = None
        self._heartbeats = _Heartbeats(observations)

    def add(self, observation: Observation) -> None:
        """Append an observation, or let it join an equal one."""
        is_new = self._describes_anew(observation) or not self._heartbeats.is_steady(observation)
        can_fold = is_foldable(observation.statement) and self._is_whole_exchange(observation)
        if can_fold and observation.is_matched:
            request = self._joined[observation.paired_sequence]
            occurrence = msgspec.structs.replace(observation.occurrence, paired_sequence=request)
            observation = Observation(observation.statement, occurrence)
        if not can_fold or not self._was_said(observation) or is_new:
            self._gatherings.clear()
            self._append(observation)
        else:
            self._join(observation)

    def _was_said(self, observation: Observation) -> bool:
        """Whether this window or an earlier one had the statement before."""
        statement = observation.statement
        if statement in self._seen:
            return True
        self._seen.add(statement)
        first = self._said.get(statement, 0)
        was_said = 0 < first < observation.first_sequence
        if not was_said:
            self._said[statement] = observation.first_sequence
        return was_said

    def _describes_anew(self, observation: Observation) -> bool:
        """Whether a broker gives other cluster or node IDs than just before."""
        body = observation.body
        if not isinstance(body, ClusterDescription) or body == self._described:
            return False
        self._described = body
        return True

    def _is_whole_exchange(self, observation: Observation) -> bool:
        """Whether the window has both request and response, where both are expected."""
        if observation.kind is Kind.REQUEST:
            return not observation.expects_response or observation.first_sequence in self._answered
        return not observation.is_matched or observation.paired_sequence in self._joined

    def _join(self, observation: Observation) -> None:
        key = observation.statement, observation.paired_sequence
        if key not in self._gatherings:
            self._gatherings[key] = len(self.folded)
            self._append(observation)
            return
        index = self._gatherings[key]
        first = self.folded[index]
        self.folded[index] = Observation(first.statement, _gather(first.occurrence, observation.occurrence))
        self._joined[observation.first_sequence] = first.first_sequence

    def _append(self, observation: Observation) -> None:
        self._joined[observation.first_sequence] = observation.first_sequence
        self.folded.append(observation)


class _Heartbeats:
    """Decides whether heartbeats are steady: answered one by one, each equal to the one before it."""

    def __init__(self, observations: list[Observation]) -> None:
        self._in_turn = set(_in_turn(observations))
        self._request: Heartbeat | None = None
        self._response: HeartbeatResponse | None = None

    def is_steady(self, observation: Observation) -> bool:
        """Process an observation. Everything but a heartbeat is steady."""
        body, steady = observation.body, True
        if may_hide_heartbeat(observation.statement):
            self._request = self._response = None
        elif isinstance(body, Heartbeat):
            request = body if observation.first_sequence in self._in_turn else None
            steady = request is not None and request == self._request
            self._request = request
        elif isinstance(body, HeartbeatResponse):
            response = body if observation.first_sequence in self._in_turn else None
            steady = response is not None and response == self._response
            self._response = response
        return steady


def _in_turn(observations: list[Observation]) -> Iterator[int]:
    """Yield the sequences of heartbeats that are answered before the next heartbeat, and of the responses."""
    waiting = 0
    for observation in observations:
        if may_hide_heartbeat(observation.statement):
            waiting = 0
        elif isinstance(observation.body, Heartbeat):
            waiting = observation.first_sequence
        elif isinstance(observation.body, HeartbeatResponse):
            if observation.is_matched and observation.paired_sequence == waiting:
                yield from (waiting, observation.first_sequence)
            waiting = 0


def may_hide_heartbeat(statement: Statement) -> bool:
    """Whether it is a heartbeat that was not read or that changes facts, or an event that may hide one."""
    is_unread = statement.body is None and statement.api_key in HEARTBEAT_APIS
    return is_unread or not is_foldable(statement)


def is_foldable(statement: Statement) -> bool:
    """Whether repeats of a statement can be gathered."""
    is_request = statement.kind is Kind.REQUEST and not statement.is_matched
    if not is_request and statement.kind is not Kind.RESPONSE:
        return False
    if statement.failure is not None or statement.oddity is not None:
        return False
    return statement.api_key != API_VERSIONS and _may_repeat(statement.body)


def _may_repeat(body: Body | None) -> bool:
    """Whether a repeated body changes no fact. A member leaves once, so a leaving heartbeat does."""
    if isinstance(body, Heartbeat):
        return (body.member_epoch or 0) >= JOINING
    return body is None or isinstance(body, ClusterDescription | HeartbeatResponse | MemberRequest)


def _gather(first: Occurrence, repeat: Occurrence) -> Occurrence:
    return msgspec.structs.replace(
        first,
        last_sequence=repeat.last_sequence,
        last_captured_at=repeat.last_captured_at,
        previous_captured_at=first.last_captured_at,
        count=first.count + repeat.count,
        size=first.size + repeat.size,
    )
