"""kip1082/member-id-changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import HEARTBEAT_APIS, JOINING
from expectations.conversation.bodies import Heartbeat
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import Members
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import (
    LOSSES,
    REQUESTS,
    Judgement,
    Level,
    Role,
    Verdict,
    conforms,
    undecided,
)

SILENT_INTERVALS = 2
"""A member that missed this many heartbeats has given way to the new ID."""


class GroupMember(msgspec.Struct, omit_defaults=True):
    """The member of one group on this connection, and the IDs that appeared beside its own.

    `rivals` has the first heartbeat of each other ID, `pending` counts those that followed. `shared` means
    that several members use the connection.
    """

    member_id: str
    rivals: dict[str, Observation] = {}
    shared: bool = False
    pending: int = 0


class GroupMembers(msgspec.Struct, omit_defaults=True):
    """The member of each group."""

    groups: dict[str, GroupMember] = {}


class MemberIdChanged(IdentityRule):
    """Checks that a client keeps its member ID of a group, across retries, leaving and rejoining.

    ## Why it matters
    The ID stands for one life of the process. A client that makes a new one leaves a ghost behind:
    the old member holds its partitions until its session times out.

    ## Example
    `ConsumerGroupHeartbeat v1, member "A", epoch -1` and then `member "B", epoch 0` for the same group.

    ## What to do
    Make the ID once for the lifetime of the consumer object and keep it, even after an
    UNKNOWN_MEMBER_ID or a fencing error.

    ## What it does not cover
    Adopting the ID that the broker's last response gave. Another ID may also mean that two members
    share the connection: if the first one is seen again, it is undecided. So a change without a
    leave is reported only when the first ID has been silent for two heartbeat intervals, or the
    connection closed without it. What a gap or an unreadable heartbeat may have hidden is undecided.
    On another connection a change is judged by the client instance ID: the same one joins the same
    group under a new member ID after the connection of the first one was lost. Without instance IDs
    nothing tells a client that rejoins from one that was restarted. A member of a static group
    instance that is restarted has another client instance ID, too.
    """

    section = "Proposed Changes, Member ID Lifecycle"
    requirement = "The member ID stays the same for the life of the process, also when it leaves and rejoins."
    message = 'the member ID for group "{group}" changed from {expected} to {observed} ({when})'
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS | LOSSES
    apis = frozenset(HEARTBEAT_APIS)
    kind = IdentityKind.MEMBERSHIP
    waits = True
    implies = ("kip1313/member-id-differs",)
    State = GroupMembers

    def judge(
        self, observation: Observation, conversation: Conversation, state: GroupMembers
    ) -> Iterator[Judgement]:
        """Follow the members of each group."""
        if observation.kind is Kind.GAP:
            yield from _forget(state)
        elif observation.api_key in HEARTBEAT_APIS and observation.kind is Kind.REQUEST:
            if isinstance(observation.body, Heartbeat) and observation.body.member_id is not None:
                yield from self._judge_heartbeat(observation, observation.body, conversation.members, state)
            else:
                yield from _forget(state)

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a client instance that joins a group which it was a member of on another connection."""
        before = [other for other in others if _is_before(claim, other)]
        if not before or claim.membership is None or not claim.membership.joins:
            return None
        if any(other.member_id == claim.member_id for other in before):
            return conforms()
        previous = before[-1]
        is_whole = claim.began_whole and previous.began_whole and previous.has_left
        if not is_whole or any(_goes_on(other, claim) for other in others):
            return undecided()
        return _changed(claim, previous)

    def close(self, conversation: Conversation, state: GroupMembers) -> Iterator[Judgement]:
        """No heartbeat follows: the IDs that appeared beside a member's own have replaced it."""
        if not conversation.ended:
            yield from _forget(state)
        for group_id, member in state.groups.items():
            yield from _replace(group_id, member, conversation.members)

    def _judge_heartbeat(
        self, request: Observation, heartbeat: Heartbeat, members: Members, state: GroupMembers
    ) -> Iterator[Judgement]:
        group_id, member_id = heartbeat.group_id, heartbeat.member_id
        if not group_id or not member_id or not heartbeat.has_member_id:
            return
        member = state.groups.get(group_id)
        if member is None:
            state.groups[group_id] = GroupMember(member_id)
        elif member.shared:
            yield undecided(request.count)
        elif member_id == member.member_id:
            yield from _judge_own(member, request.count)
        else:
            yield from _judge_other(request, group_id, member_id, member, members)


def _judge_own(member: GroupMember, count: int) -> Iterator[Judgement]:
    """The member itself sends: IDs that appeared beside it belong to others on this connection."""
    if member.rivals:
        yield from _drop_rivals(member)
        member.shared = True
    else:
        yield conforms(count)


def _judge_other(
    request: Observation, group_id: str, member_id: str, member: GroupMember, members: Members
) -> Iterator[Judgement]:
    facts = members.of(group_id, member.member_id)
    if member_id == facts.assigned_id:
        yield from _drop_rivals(member)
        member.member_id = member_id
        yield conforms(request.count)
    elif facts.has_left:
        yield _violates(group_id, member, member_id, request, "across leave and rejoin")
        member.member_id = member_id
    else:
        is_known = member.rivals.setdefault(member_id, request) is not request
        member.pending += request.count if is_known else 0
        silence = members.silence_of(group_id, member.member_id)
        if silence >= SILENT_INTERVALS * facts.heartbeat_interval * 1_000_000:
            yield from _replace(group_id, member, members)


def _replace(group_id: str, member: GroupMember, members: Members) -> Iterator[Judgement]:
    """Let the IDs that appeared beside a member's own take its place, one after the other."""
    facts = members.of(group_id, member.member_id)
    when = "on a retry" if not facts.answered and facts.epoch == JOINING else "mid-session"
    for member_id, first in member.rivals.items():
        yield _violates(group_id, member, member_id, first, when)
        member.member_id = member_id
    if member.pending:
        yield conforms(member.pending)
    member.rivals.clear()
    member.pending = 0


def _violates(group_id: str, member: GroupMember, member_id: str, first: Observation, when: str) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected=member.member_id,
        observed=member_id,
        context={"group": group_id, "expected": member.member_id, "observed": member_id, "when": when},
        subject=first,
    )


def _drop_rivals(member: GroupMember) -> Iterator[Judgement]:
    """Give up the IDs that appeared beside a member's own: it is unknown who uses them."""
    if member.rivals:
        yield undecided(len(member.rivals) + member.pending)
        member.rivals.clear()
        member.pending = 0


def _forget(state: GroupMembers) -> Iterator[Judgement]:
    """Frames are missing: what was pending is undecided, and every group starts anew."""
    for member in state.groups.values():
        yield from _drop_rivals(member)
    state.groups.clear()


def _is_before(claim: Claim, other: Claim) -> bool:
    return other.connection != claim.connection and other.order < claim.order


def _goes_on(other: Claim, claim: Claim) -> bool:
    """Whether another member of the client instance is heard after a claim's member began."""
    return other.member_id != claim.member_id and other.order < claim.order and other.until > claim.since


def _changed(claim: Claim, previous: Claim) -> Judgement | None:
    """Judge a new member ID after an earlier one, which the client must have made itself."""
    before = previous.membership
    if before is None or not before.joins:
        return undecided()
    when = "on another connection"
    if before.has_left:
        when = "across leave and rejoin"
    elif before.epoch == JOINING and before.error_code is None:
        when = "on a retry"
    expected, observed = previous.member_id or "", claim.member_id or ""
    context = {"group": claim.group_id or "", "expected": expected, "observed": observed, "when": when}
    return Judgement(Verdict.VIOLATES, expected=expected, observed=observed, context=context)
