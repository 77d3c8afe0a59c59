"""kip1313/instance-id-not-lifelong."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from expectations.conversation.texts import RESERVED_UUIDS, identifier_bytes
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

ENOUGH = 5
"""Connections, one after another, that all have an ID of their own."""
LONG_LIVED = 32
"""A correlation ID that a process which connects anew does not begin with, whichever brokers it asked
before."""
SESSION = 45 * 1_000_000_000
"""Nanoseconds for which a broker keeps a silent member by default (`group.consumer.session.timeout.ms`)."""


class InstanceIdNotLifelong(IdentityRule):
    """Checks that a client goes by one client instance ID for its whole lifetime.

    ## Why it matters
    The ID is there to follow one client across its connections. With an ID per connection the broker's logs,
    metrics and telemetry show many short-lived clients, and none of them can be followed.

    ## Example
    Five connections of client "orders" from one address, one after another, carry five client instance IDs.

    ## What to do
    Generate the ID once, in the client's constructor, and hand it to every connection. If each connection is
    a process of its own, such as a job that runs every minute, nothing is wrong.

    ## What it does not cover
    Connections that follow one another are information: one process with an ID per connection looks like a
    process per connection. It is published once for an address and client ID, and not if connections overlap
    or an ID is seen again. It is proven, and a violation, where correlation IDs go on across all of the
    connections from 1 to 32 or more, because a process begins to count anew; and where a member goes on: a
    connection seen from its beginning continues, without joining, the membership that another connection of
    the same address and software began under another instance ID. Both lead to one server, and the heartbeats
    are less than 45 seconds apart; otherwise another process may have joined where nothing is captured, and
    it is an improvement. Member IDs that are UUIDs are left to kip1313/instance-id-not-kept. Transactional
    IDs and group instance IDs outlive processes and show nothing. Connections with different principals are
    not compared.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "A client uses one client instance ID for its whole lifetime, on all connections."
    needs = "a client that connects again under header v3"
    message = "{count} client instance IDs: {shown}"
    level = Level.INFORMATION
    role = Role.CLIENT
    implies = ("kip1082/member-id-not-uuid",)
    kind = IdentityKind.CLIENT
    further_kinds = frozenset({IdentityKind.MEMBER})
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the connection has an instance ID."""
        return claim.instance_id is not None

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare the instance ID of a connection with those of earlier ones."""
        if claim.identity.kind is IdentityKind.MEMBER:
            return _judge_member(claim, others)
        return _judge_client(claim, others)


def _judge_member(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge a membership that goes on where another connection began it."""
    member = identifier_bytes(claim.member_id or "")
    is_uuid = member is not None and member not in RESERVED_UUIDS
    if is_uuid or claim.membership is None or claim.membership.joins:
        return None
    before = [other for other in others if _is_same_member(claim, other)]
    if not before:
        return None
    if any(other.instance_id == claim.instance_id for other in before):
        return conforms()
    if not claim.began_whole or not any(other.began_whole for other in before):
        return undecided(why_partly_seen(claim, *before))
    shown = f'member "{claim.member_id}" of group "{claim.group_id}" goes on under another'
    is_proven = any(_goes_on(claim, other) for other in before)
    return _differs(2, shown, Level.VIOLATION if is_proven else Level.IMPROVEMENT)


def _judge_client(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge connections of an address and client ID, one after another."""
    alike = [other for other in others if other.instance_id is not None and _is_alike(claim, other)]
    connections = sorted([claim, *alike], key=lambda each: (each.opened_at, each.connection))
    place = connections.index(claim)
    if any(other.instance_id == claim.instance_id for other in connections[:place]):
        return conforms()
    if place + 1 < ENOUGH:
        return None
    latest = _first_sequence(connections)
    if latest is None:
        return undecided(Reason.AMBIGUOUS_PROCESS) if place + 1 == ENOUGH else None
    if latest is not claim:
        return None
    if _counts_on(connections[place + 1 - ENOUGH : place + 1]):
        shown = "as many connections one after another, over which one process counts its requests"
        return _differs(ENOUGH, shown, Level.VIOLATION)
    shown = "as many connections one after another, each a process, or one that does not keep its ID"
    return _differs(ENOUGH, shown, Level.INFORMATION)


def _counts_on(connections: Sequence[Claim]) -> bool:
    """Whether one process numbers its requests over connections in a row, from its beginning on.

    On each it sends two requests at least. Five processes that asked brokers first where nothing is captured
    begin with numbers that rise by chance, but soon after their beginning.
    """
    first = [each.first_correlation_id for each in connections if each.began_whole]
    numbers = [each for each in first if each is not None]
    if len(numbers) < len(connections):
        return False
    is_one = connections[0].begins_anew and numbers[-1] >= LONG_LIVED
    return is_one and all(later > earlier + 1 for earlier, later in itertools.pairwise(numbers))


def _first_sequence(connections: Sequence[Claim]) -> Claim | None:
    """Return the last of the first ENOUGH connections that follow one another, each with an ID of its own."""
    times, length = Counter(each.instance_id for each in connections), 0
    for number, each in enumerate(connections):
        if number and not _is_over(connections[number - 1], each):
            length = 0
        length = length + 1 if times[each.instance_id] == 1 else 0
        if length == ENOUGH:
            return each
    return None


def _differs(count: int, shown: str, level: Level) -> Judgement:
    return violates(
        expected="one client instance ID of a client",
        observed=f"{count} client instance IDs",
        context={"count": str(count), "shown": shown},
        level=level,
    )


def _is_same_member(claim: Claim, other: Claim) -> bool:
    """Whether an earlier connection of the same address and software has sent heartbeats of the member."""
    is_earlier = other.connection != claim.connection and other.order < claim.order
    has_left = other.membership is not None and other.membership.has_left
    if not is_earlier or has_left or other.instance_id is None:
        return False
    return other.client_host == claim.client_host and _is_alike(claim, other)


def _goes_on(claim: Claim, other: Claim) -> bool:
    """Whether nobody can have joined in between: not at another server, nor for the silence."""
    return other.began_whole and other.server == claim.server and claim.since < other.until + SESSION


def _is_over(one: Claim, other: Claim) -> bool:
    """Whether a connection ended before another one began."""
    return one.has_left and other.opened_after(one.until)


def _is_alike(claim: Claim, other: Claim) -> bool:
    return other.named_software == claim.named_software and not claim.has_other_principal(other)
