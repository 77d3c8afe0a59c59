"""Progress: what every frame moves on a connection, apart from the facts that rules judge by.

Times, sequences and the requests in flight change with each frame, the facts only with news. Kept apart, the
facts of a connection that repeats itself are neither read nor written, and connections with equal facts get
equal verdicts. `Progress.advance` moves these values for the judge, `progress_numbers.py` the same values for
the judgement cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.in_flight import InFlight
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.statement import Statement

NEVER: Final = -1
"""The time of what never happened."""
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


def shown_again(until: int, before_until: int, occurrence: Occurrence) -> tuple[int, int]:
    """Return when an identity was last shown, and when before that, after an occurrence that shows it again.

    Folded occurrences of several statements overlap.
    """
    last = occurrence.last_captured_at
    if last > until:
        return last, max(occurrence.previous_captured_at, until)
    return until, max(before_until, last)


class Shown(msgspec.Struct, array_like=True):
    """When a connection last showed an identity, and when before that, in nanoseconds since the epoch."""

    until: int
    before_until: int

    def advance(self, occurrence: Occurrence) -> None:
        """Move both times to an occurrence that shows the identity again."""
        self.until, self.before_until = shown_again(self.until, self.before_until, occurrence)


class MemberProgress(Shown, array_like=True):
    """When a group member last sent a heartbeat; `heartbeat` is that heartbeat's sequence, 0 after a gap."""

    heartbeat: int = 0


class Progress(msgspec.Struct, omit_defaults=True):
    """What frames move on one connection.

    `captured_at` is the latest capture time, `sequence` the latest sequence and `loss` that of the latest
    loss. `in_flight` has only requests that came after it. `client` and `instance` tell when the connection
    last showed its client ID and its client instance ID, None if it has none. `members` has the members that
    send heartbeats, by `member_name`.
    """

    captured_at: int = 0
    sequence: int = 0
    loss: int = 0
    client: Shown | None = None
    instance: Shown | None = None
    members: dict[str, MemberProgress] = {}
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
        """Process a loss. Returns by API key how many requests were in flight, of which no more is known."""
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
