"""Folding: equal observations of a window become one with a count.

Steady traffic repeats itself: the same API, version, header and identifiers, again and again. Rules
need its first occurrence and how often it came back. Folding must change no judgement, whatever the
size of the window, and it keeps that promise by three habits:

- the first occurrence of anything in a window stays by itself, so that "the first request" and "the
  first offence" keep their own sequence number;
- repeats are gathered only as long as nothing new is said. Whatever is new (a first occurrence, or
  an observation with a body, a failure or an event) starts a new gathering, for it may change the
  facts by which later repeats are judged;
- a request is gathered only if its answer is in the window too, or none is owed, and answers only with
  answers to the same gathering. So whoever waits for the answer to a request finds it, in this window
  or a later one: `paired_sequence` is then the first sequence of the gathering.

A repeat by itself changes no fact. It only adds to counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.observation import API_VERSIONS, ClusterDescription, Observation

Likeness = tuple[object, ...]


def fold(observations: Iterable[Observation]) -> list[Observation]:
    """Fold one connection's observations of a window, given in sequence order.

    Records that come a second time, which a source that was read again may bring, are left out.
    """
    given = list(observations)
    folding = _Folding(given)
    latest = 0
    for observation in given:
        if observation.first_sequence > latest:
            latest = observation.last_sequence
            folding.take(observation)
    return folding.folded


class _Folding:
    """One window in the making.

    `_gathering` holds the places of what repeats may still join, `_joined` tells for the sequence of a
    request which gathering it went into.
    """

    def __init__(self, observations: list[Observation]) -> None:
        self.folded: list[Observation] = []
        self._answered = {seen.paired_sequence for seen in observations if seen.is_matched}
        self._seen: set[Likeness | None] = set()
        self._gathering: dict[Likeness, int] = {}
        self._joined: dict[int, int] = {}
        self._described: ClusterDescription | None = None

    def take(self, observation: Observation) -> None:
        is_new = self._describes_anew(observation) or not self._is_whole_exchange(observation)
        likeness = None if is_new else likeness_of(observation)
        if likeness is not None and observation.is_matched:
            request = self._joined[observation.paired_sequence]
            observation = msgspec.structs.replace(observation, paired_sequence=request)
        if likeness is None or likeness not in self._seen:
            self._gathering.clear()
            self._seen.add(likeness)
            self._append(observation)
        else:
            self._join(observation, (*likeness, observation.paired_sequence))

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

    def _join(self, observation: Observation, key: Likeness) -> None:
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


def likeness_of(observation: Observation) -> Likeness | None:
    """Name what two observations must share to be equal; None for those that are never folded."""
    is_request = observation.kind is Kind.REQUEST and not observation.is_matched
    foldable = is_request or observation.kind is Kind.RESPONSE
    if not foldable or observation.failure is not None or observation.oddity is not None:
        return None
    if observation.api_key == API_VERSIONS:
        return None
    if observation.body is not None and not isinstance(observation.body, ClusterDescription):
        return None
    return (
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
        observation.body,
    )


def _gather(gathered: Observation, observation: Observation) -> Observation:
    return msgspec.structs.replace(
        gathered,
        last_sequence=observation.last_sequence,
        last_captured_at=observation.last_captured_at,
        count=gathered.count + observation.count,
    )
