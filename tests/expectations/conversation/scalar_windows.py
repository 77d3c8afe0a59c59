"""The scalar path from records to windows: each record is decoded, observed and folded by itself.

It is the oracle of `expectations/conversation/columnar`, which gives the reasons in `folding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import ClusterDescription, Heartbeat, HeartbeatResponse
from expectations.conversation.columnar.folding import is_foldable, may_hide_heartbeat
from expectations.conversation.observation import (
    EVIDENCE_BYTES,
    ConnectionKey,
    Evidence,
    Observation,
    Occurrence,
    Statement,
    Window,
)
from expectations.conversation.statement_reader import correlation_id, read_statement

Said = dict[bytes, dict[Statement, int]]
"""What connections said in earlier windows, by connection ID: statements and their first sequences."""


def in_file(name: str, record: Record) -> Evidence:
    """Point to a record of a capture file."""
    return Evidence(name, record.frame[:EVIDENCE_BYTES], record.position)


def in_topic(name: str, place: tuple[int, int, int], record: Record) -> Evidence:
    """Point to a record of a topic by its partition, the offset of its block, and its row in that."""
    return Evidence(name, record.frame[:EVIDENCE_BYTES], None, *place)


def connection_of(record: Record) -> ConnectionKey:
    """Return the key of the connection that a record belongs to."""
    return ConnectionKey(
        record.connection, record.cluster, str(record.client), str(record.server), record.run
    )


def observe(schemas: Schemas, record: Record, evidence: Evidence) -> Observation:
    """Decode a record."""
    occurrence = Occurrence(
        record.sequence,
        record.sequence,
        record.captured_at,
        record.captured_at,
        evidence,
        correlation_id=correlation_id(record),
        paired_sequence=record.paired_sequence if record.kind is Kind.RESPONSE else 0,
        size=record.true_length,
    )
    return Observation(read_statement(schemas, record), occurrence)


def windows_of(
    schemas: Schemas, records: Iterable[tuple[Record, Evidence]], said: Said | None = None
) -> list[Window]:
    """Fold records, each with its evidence, to one window per connection.

    `said` holds the statements of earlier windows; those of these windows are added. The feeder's own
    heartbeats belong to no connection and are dropped.
    """
    observations: dict[bytes, list[Observation]] = {}
    keys: dict[bytes, ConnectionKey] = {}
    for record, evidence in records:
        if record.kind is Kind.HEARTBEAT:
            continue
        keys.setdefault(record.connection, connection_of(record))
        observations.setdefault(record.connection, []).append(observe(schemas, record, evidence))
    said = {} if said is None else said
    return [
        window_of(keys[connection], fold(_in_order(seen), said.setdefault(connection, {})))
        for connection, seen in observations.items()
    ]


def window_of(connection: ConnectionKey, observations: list[Observation]) -> Window:
    """Number the statements of observations."""
    numbers: dict[Statement, int] = {}
    return Window(
        connection,
        [numbers.setdefault(seen.statement, len(numbers)) for seen in observations],
        [seen.occurrence for seen in observations],
        dict(enumerate(numbers)),
    )


def _in_order(observations: list[Observation]) -> list[Observation]:
    return sorted(observations, key=lambda seen: seen.first_sequence)


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


def _gather(first: Occurrence, repeat: Occurrence) -> Occurrence:
    return msgspec.structs.replace(
        first,
        last_sequence=repeat.last_sequence,
        last_captured_at=repeat.last_captured_at,
        previous_captured_at=first.last_captured_at,
        count=first.count + repeat.count,
        size=first.size + repeat.size,
    )
