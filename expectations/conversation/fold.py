"""Folding: equal observations of a window become one with a count.

Steady traffic repeats itself: the same API, version, header and identifiers, again and again. Rules
need its first occurrence and how often it came back. Folding must change no judgement, whatever the
size of the window, and it keeps that promise by four habits:

- the first occurrence of anything, in a window or as far as is remembered of earlier ones, stays by
  itself, so that "the first request" and "the first offence" keep their own sequence number;
- repeats are gathered only as long as nothing new is said. Whatever is new (a first occurrence, or
  an observation with a body, a failure or an event) starts a new gathering, for it may change the
  facts by which later repeats are judged;
- heartbeats are gathered only while they are asked and answered in turn, each as the one before it, since
  what a heartbeat comes to depends on that one;
- a request is gathered only if its answer is in the window too, or none is owed, and answers only with
  answers to the same gathering. So whoever waits for the answer to a request finds it, in this window
  or a later one: `paired_sequence` is then the first sequence of the gathering.

A repeat by itself changes no fact. It only adds to counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from decoders.frame.record import Kind, Pairing
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS, JOINING
from decoders.schema.header_versions import Layout
from expectations.conversation.observation import (
    Body,
    ClusterDescription,
    Heartbeat,
    HeartbeatAnswer,
    Observation,
)


class Likeness(msgspec.Struct, frozen=True, gc=False):
    """What two observations must share to be equal."""

    kind: Kind
    api_key: int
    api_version: int
    header_version: int | None
    client_id: str | None
    client_instance_id: bytes | None
    settled: bool
    known: bool
    cut: bool
    pairing: Pairing
    errors: tuple[int, ...] | None
    layout: Layout | None
    other_header: int | None
    owes_answer: bool
    unproven: bool
    body: Body | None


def fold(observations: Iterable[Observation], said: dict[Likeness, int] | None = None) -> list[Observation]:
    """Fold one connection's observations of a window, given in sequence order.

    `said` tells at which sequences earlier windows first had a likeness, and learns those of this one.
    Records that come a second time, which a source that was read again may bring, are left out.
    """
    given = list(_once(observations))
    folding = _Folding(given, {} if said is None else said)
    for observation in given:
        folding.take(observation)
    return folding.folded


def _once(observations: Iterable[Observation]) -> Iterator[Observation]:
    latest = 0
    for observation in observations:
        if observation.first_sequence > latest:
            latest = observation.last_sequence
            yield observation


class _Folding:
    """One window in the making.

    `_gathering` holds the places of what repeats may still join, `_joined` tells for the sequence of a
    request which gathering it went into.
    """

    def __init__(self, observations: list[Observation], said: dict[Likeness, int]) -> None:
        self._said = said
        self.folded: list[Observation] = []
        self._answered = {seen.paired_sequence for seen in observations if seen.is_matched}
        self._seen: set[Likeness] = set()
        self._gathering: dict[tuple[Likeness, int], int] = {}
        self._joined: dict[int, int] = {}
        self._described: ClusterDescription | None = None
        self._pulse = _Pulse(observations)

    def take(self, observation: Observation) -> None:
        is_new = self._describes_anew(observation) or not self._pulse.is_steady(observation)
        likeness = likeness_of(observation) if self._is_whole_exchange(observation) else None
        if likeness is not None and observation.is_matched:
            request = self._joined[observation.paired_sequence]
            observation = msgspec.structs.replace(observation, paired_sequence=request)
        if likeness is None or not self._was_said(likeness, observation) or is_new:
            self._gathering.clear()
            self._append(observation)
        else:
            self._join(observation, (likeness, observation.paired_sequence))

    def _was_said(self, likeness: Likeness, observation: Observation) -> bool:
        """Whether this window or an earlier one had it before."""
        if likeness in self._seen:
            return True
        self._seen.add(likeness)
        first = self._said.get(likeness, 0)
        was_said = 0 < first < observation.first_sequence
        if not was_said:
            self._said[likeness] = observation.first_sequence
        return was_said

    def _describes_anew(self, observation: Observation) -> bool:
        """Whether a broker says of itself what it did not say just before."""
        body = observation.body
        if not isinstance(body, ClusterDescription) or body == self._described:
            return False
        self._described = body
        return True

    def _is_whole_exchange(self, observation: Observation) -> bool:
        """Whether the window has both request and answer, as far as there must be two."""
        if observation.kind is Kind.REQUEST:
            return not observation.owes_answer or observation.first_sequence in self._answered
        return not observation.is_matched or observation.paired_sequence in self._joined

    def _join(self, observation: Observation, key: tuple[Likeness, int]) -> None:
        if key not in self._gathering:
            self._gathering[key] = len(self.folded)
            self._append(observation)
            return
        place = self._gathering[key]
        self.folded[place] = _gather(self.folded[place], observation)
        self._joined[observation.first_sequence] = self.folded[place].first_sequence

    def _append(self, observation: Observation) -> None:
        self._joined[observation.first_sequence] = observation.first_sequence
        self.folded.append(observation)


class _Pulse:
    """Tells whether heartbeats are steady: asked and answered in turn, each as the one before it."""

    def __init__(self, observations: list[Observation]) -> None:
        self._in_turn = set(_in_turn(observations))
        self._asked: Heartbeat | None = None
        self._told: HeartbeatAnswer | None = None

    def is_steady(self, observation: Observation) -> bool:
        """Take an observation in. All that is no heartbeat is steady."""
        body, steady = observation.body, True
        if may_hide_heartbeat(observation):
            self._asked = self._told = None
        elif isinstance(body, Heartbeat):
            asked = body if observation.first_sequence in self._in_turn else None
            steady = asked is not None and asked == self._asked
            self._asked = asked
        elif isinstance(body, HeartbeatAnswer):
            told = body if observation.first_sequence in self._in_turn else None
            steady = told is not None and told == self._told
            self._told = told
        return steady


def _in_turn(observations: list[Observation]) -> Iterator[int]:
    """Name the heartbeats that are answered before anything like another one comes, and their answers."""
    waiting = 0
    for observation in observations:
        if may_hide_heartbeat(observation):
            waiting = 0
        elif isinstance(observation.body, Heartbeat):
            waiting = observation.first_sequence
        elif isinstance(observation.body, HeartbeatAnswer):
            if observation.is_matched and observation.paired_sequence == waiting:
                yield from (waiting, observation.first_sequence)
            waiting = 0


def may_hide_heartbeat(observation: Observation) -> bool:
    """Whether it is a heartbeat that was not read, one that changes something, or what may stand for one."""
    is_unread = observation.body is None and observation.api_key in HEARTBEAT_APIS
    return is_unread or likeness_of(observation) is None


def likeness_of(observation: Observation) -> Likeness | None:
    """Name what an observation shares with its equals; None for one that is never folded."""
    is_request = observation.kind is Kind.REQUEST and not observation.is_matched
    foldable = is_request or observation.kind is Kind.RESPONSE
    if not foldable or observation.failure is not None or observation.oddity is not None:
        return None
    if observation.api_key == API_VERSIONS:
        return None
    if not _may_repeat(observation.body):
        return None
    return Likeness(
        observation.kind,
        observation.api_key,
        observation.api_version,
        observation.header_version,
        observation.client_id,
        observation.client_instance_id,
        observation.settled,
        observation.known,
        observation.cut,
        observation.pairing,
        observation.errors,
        observation.layout,
        observation.other_header,
        observation.owes_answer,
        observation.unproven,
        observation.body,
    )


def _may_repeat(body: Body | None) -> bool:
    """Whether what is said changes nothing when it is said again. A member may leave but once."""
    if isinstance(body, Heartbeat):
        return (body.member_epoch or 0) >= JOINING
    return body is None or isinstance(body, ClusterDescription | HeartbeatAnswer)


def _gather(gathered: Observation, observation: Observation) -> Observation:
    return msgspec.structs.replace(
        gathered,
        last_sequence=observation.last_sequence,
        last_captured_at=observation.last_captured_at,
        previous_captured_at=gathered.last_captured_at,
        count=gathered.count + observation.count,
    )
