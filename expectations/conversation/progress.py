"""What every frame moves on a connection, apart from the facts that rules judge by.

Times, sequences and the requests in flight change with each frame, facts only with news. They are kept apart,
so the facts of a connection that repeats itself are neither read nor written, and connections with equal
facts share verdicts. `Progress.advance` moves these values frame by frame; the automaton moves
`Progress.numbers` as columns (`expectations/judging/walk.py`).

A request is in flight from its frame to its matched response. A loss empties the table: `Progress.lose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, PRODUCE
from expectations.conversation.observation import Occurrence, Statement
from expectations.conversation.own_values import ApiKey, Count, MemberName, SequenceNumber, Time, Version

NEVER: Final = -1
"""Stands for a time at which nothing happened."""
PROGRESS_NUMBERS: Final = (
    "captured_at",
    "sequence",
    "loss",
    "client_until",
    "client_before_until",
    "instance_until",
    "instance_before_until",
    "member_until",
    "member_before_until",
    "member_heartbeat",
)
"""The names of the numbers that `Progress.numbers` lists, in their order."""
ApiVersion = tuple[ApiKey, Version]
"""An API key and a version."""
UNREADABLE_PRODUCE: ApiVersion = (PRODUCE, -1)
"""A Produce whose acks were not read, so that it is unknown whether it expects a response."""

VERSIONS_LIMIT: Final = 64
"""API versions of one connection that are counted separately. A client could name 2^32."""
OTHERS: ApiVersion = (API_VERSIONS, -1)
"""Stands for the versions beyond VERSIONS_LIMIT. There may be negotiations among them."""


class InFlight(msgspec.Struct, omit_defaults=True):
    """The requests of one connection since its latest loss without a response, by API version."""

    counts: dict[ApiVersion, Count] = {}

    def advance(self, statement: Statement, count: int) -> None:
        """Count `count` frames with a statement: requests that expect a response, or responses."""
        change = in_flight_change(statement)
        if change is not None:
            version, sign = change
            self.add(version, sign * count)

    def add(self, version: ApiVersion, count: int) -> None:
        """Count `count` more requests of an API version, or fewer if it is negative."""
        if version not in self.counts and (OTHERS in self.counts or len(self.counts) >= VERSIONS_LIMIT):
            version = OTHERS
        left = self.counts.get(version, 0) + count
        if left:
            self.counts[version] = left
        else:
            self.counts.pop(version, None)

    @property
    def only_one(self) -> ApiVersion | None:
        """The API version of the only request in flight, None if there are more or none.

        None for one of OTHERS, too. UNREADABLE_PRODUCE may expect no response at all.
        """
        is_one = list(self.counts.values()) == [1] and OTHERS not in self.counts
        return next(iter(self.counts)) if is_one else None

    def may_include(self, version: ApiVersion) -> bool:
        """Whether a request of an API version may be in flight."""
        return version in self.counts or OTHERS in self.counts

    def forget(self) -> dict[int, int]:
        """Forget all requests. Returns how many there were, by API key."""
        forgotten: dict[int, int] = {}
        for (api_key, _), count in self.counts.items():
            forgotten[api_key] = forgotten.get(api_key, 0) + count
        self.counts.clear()
        return forgotten


class Shown(msgspec.Struct, array_like=True):
    """The times of the last and the last but one showing of an identity, in nanoseconds since the epoch."""

    until: Time
    before_until: Time

    def advance(self, occurrence: Occurrence) -> None:
        """Move both times to an occurrence that shows the identity again."""
        last = occurrence.last_captured_at
        if last > self.until:
            self.before_until = max(occurrence.previous_captured_at, self.until)
            self.until = last
        else:
            # Folded occurrences of several statements overlap.
            self.before_until = max(self.before_until, last)


class MemberProgress(Shown, array_like=True):
    """When a group member last sent a heartbeat; `heartbeat` is that heartbeat's sequence, 0 after a gap."""

    heartbeat: SequenceNumber = 0


class Progress(msgspec.Struct, omit_defaults=True):
    """The values that frames move on one connection.

    `captured_at` is the latest capture time, `sequence` the latest sequence and `loss` that of the latest
    loss. `in_flight` has only requests that came after it. `client` and `instance` are the times at which
    the connection showed its client ID and its client instance ID, None if it has none. `members` has the
    members that send heartbeats, by `member_name`.
    """

    captured_at: Time = 0
    sequence: SequenceNumber = 0
    loss: SequenceNumber = 0
    client: Shown | None = None
    instance: Shown | None = None
    members: dict[MemberName, MemberProgress] = {}
    in_flight: InFlight = msgspec.field(default_factory=InFlight)

    def advance(
        self, statement: Statement, occurrence: Occurrence, member: MemberProgress | None = None
    ) -> None:
        """Process one occurrence of a statement. `member` is the one that a heartbeat request names."""
        # Folded occurrences overlap, so the later one may end earlier.
        self.captured_at = max(self.captured_at, occurrence.last_captured_at)
        self.sequence = max(self.sequence, occurrence.last_sequence)
        if not 0 < occurrence.paired_sequence <= self.loss:
            self.in_flight.advance(statement, occurrence.count)
        if statement.kind is not Kind.REQUEST:
            return
        if self.client is not None:
            self.client.advance(occurrence)
        if self.instance is not None:
            self.instance.advance(occurrence)
        if member is not None:
            member.advance(occurrence)
            member.heartbeat = occurrence.first_sequence

    def lose(self, sequence: int) -> dict[int, int]:
        """Process a loss: forget the requests in flight. Returns how many there were, by API key."""
        self.loss = sequence
        return self.in_flight.forget()

    @property
    def only_member(self) -> MemberProgress | None:
        """The member, if there is exactly one."""
        return next(iter(self.members.values())) if len(self.members) == 1 else None

    def numbers(self) -> tuple[int, ...]:
        """Return the PROGRESS_NUMBERS, with those of the only member. NEVER stands for what is missing."""
        client, instance, member = self.client, self.instance, self.only_member
        return (
            self.captured_at,
            self.sequence,
            self.loss,
            client.until if client else NEVER,
            client.before_until if client else NEVER,
            instance.until if instance else NEVER,
            instance.before_until if instance else NEVER,
            member.until if member else NEVER,
            member.before_until if member else NEVER,
            member.heartbeat if member else NEVER,
        )

    @classmethod
    def of_numbers(cls, numbers: Sequence[int], member_name: str, in_flight: InFlight) -> Progress:
        """Read back what `numbers` listed; the only member, if there is one, gets the name given."""
        captured_at, sequence, loss, *shown, heartbeat = numbers
        client, instance, member = shown[0:2], shown[2:4], shown[4:6]
        return cls(
            captured_at,
            sequence,
            loss,
            Shown(*client) if client[0] != NEVER else None,
            Shown(*instance) if instance[0] != NEVER else None,
            {member_name: MemberProgress(member[0], member[1], heartbeat)} if member[0] != NEVER else {},
            in_flight,
        )


def in_flight_change(statement: Statement) -> tuple[ApiVersion, int] | None:
    """Return the API version whose count a frame changes, and by how much: 1 for a request, else -1."""
    if statement.kind is Kind.REQUEST and statement.expects_response:
        return request_version(statement), 1
    if statement.kind is Kind.RESPONSE and statement.is_matched:
        return (statement.api_key, statement.api_version), -1
    return None


def request_version(request: Statement) -> ApiVersion:
    """Return the API version that a request is counted under."""
    is_certain = request.known and request.failure is None
    if request.api_key == PRODUCE and not is_certain:
        return UNREADABLE_PRODUCE
    return request.api_key, request.api_version
