"""Folding: equal observations of a window become one with a count.

Steady traffic repeats itself: the same API, version, header and identifiers, again and again. Rules
need its first occurrence and how often it came back. Folding must change no judgement, whatever the
size of the window, and it keeps that promise by two habits:

- the first occurrence of anything in a window stays by itself, so that "the first request" and "the
  first offence" keep their own sequence number;
- repeats are gathered only as long as nothing new is said. Whatever is new (a first occurrence, or
  an observation with a body, a failure or an event) starts a new gathering, for it may change the
  facts by which later repeats are judged.

A repeat by itself changes no fact. It only adds to counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.observation import Observation

_Likeness = tuple[object, ...]


def fold(observations: Iterable[Observation]) -> list[Observation]:
    """Fold one connection's observations of a window, given in sequence order.

    Records that come a second time, which a source that was read again may bring, are left out.
    """
    folded: list[Observation] = []
    seen: set[_Likeness] = set()
    gathering: dict[_Likeness, int] = {}
    latest = 0
    for observation in observations:
        if observation.first_sequence <= latest:
            continue
        latest = observation.last_sequence
        likeness = _likeness(observation)
        if likeness is None or likeness not in seen:
            gathering.clear()
            folded.append(observation)
            if likeness is not None:
                seen.add(likeness)
        elif likeness in gathering:
            place = gathering[likeness]
            folded[place] = _gather(folded[place], observation)
        else:
            gathering[likeness] = len(folded)
            folded.append(observation)
    return folded


def _likeness(observation: Observation) -> _Likeness | None:
    """Name what two observations must share to be equal; None for those that are never folded."""
    foldable = observation.kind in (Kind.REQUEST, Kind.RESPONSE)
    if not foldable or observation.body is not None or observation.failure is not None:
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
    )


def _gather(gathered: Observation, observation: Observation) -> Observation:
    return msgspec.structs.replace(
        gathered,
        last_sequence=observation.last_sequence,
        last_captured_at=observation.last_captured_at,
        count=gathered.count + observation.count,
    )
