"""kip1082/member-id-changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from decoders.protocol import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_APIS, JOINING, NO_ERROR
from expectations.conversation.bodies import Heartbeat, HeartbeatResponse
from expectations.conversation.conversation import Conversation
from expectations.conversation.members import Member, Members, split_name
from expectations.conversation.observation import NOT_CAPTURED, Observation, lacks_api
from expectations.conversation.own_values import Count, GroupId, MemberId, SequenceNumber
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_partly_seen, why_unread
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Judgements,
    Level,
    Role,
    conforms,
    undecided,
    violates,
)

SILENT_INTERVALS = 2
"""A member that missed this many heartbeats has given way to the new ID."""
GROUPS_LIMIT = 64
"""Groups of one connection that are followed; with one more, the first is forgotten."""
RIVALS_LIMIT = 64
"""IDs that are remembered beside a member's own; heartbeats of others are undecided."""
BESIDE = 8
"""Requests, at most, that a process sends between its join and the first one of its next connection."""

LONGEST_IDLE = 540_000_000_000
"""Nanoseconds for which clients keep a connection without use by default (`connections.max.idle.ms`)."""


class GroupMember(msgspec.Struct, omit_defaults=True):
    """The member of one group on this connection, and the IDs that appeared beside its own.

    `rivals` has the first heartbeat of each other ID, `pending` counts those that followed. `shared` means
    that several members use the connection. A join without an ID was sent from sequence `asked_from` to
    `asked_until`, 0 if none was; `assigned_id` is what the broker responded to it.
    """

    member_id: MemberId
    rivals: dict[MemberId, Observation] = {}
    shared: bool = False
    pending: Count = 0
    asked_from: SequenceNumber = 0
    asked_until: SequenceNumber = 0
    assigned_id: MemberId | None = None


class GroupMembers(msgspec.Struct, omit_defaults=True):
    """The member of each group."""

    groups: dict[GroupId, GroupMember] = {}


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
    Adopting the ID that the broker's last response gave, also by a client of version 0 that was fenced or
    left and joins again without an ID.

    Another ID on the connection may belong to a second member, as behind a proxy that pools connections. So a
    change without a leave is reported only when the first ID has been silent for two heartbeat intervals, or
    when the connection closed without it. If the first ID is seen again, or the connection shows several
    client IDs, the group is undecided on this connection from then on. Two members with one
    client ID that take turns, as static members may, look like one. What may have been hidden by lost bytes,
    or by a heartbeat or response that could not be read, is undecided; so is what exceeds 64 groups on a
    connection, or 64 IDs beside a member's own.

    On another connection a change is judged by the client instance ID: the same one joins the same group
    under a new member ID after the connection of the first one was lost. Without a common instance ID,
    correlation IDs may show the process: the connection ended before the heartbeat after the join, and the
    next connection of the same address, client ID, software and principal begins with the next correlation
    IDs. No connection since then may have begun to count anew, and no second one in the nine minutes before.
    Otherwise nothing tells a client that rejoins from one that was restarted. A member of a static group
    instance that is restarted has another client instance ID, too.
    """

    section = "Proposed Changes, Member ID Lifecycle"
    requirement = "The member ID stays the same for the life of the process, also when it leaves and rejoins."
    needs = "a member that sends a second heartbeat, on one connection or another"
    message = 'the member ID for group "{group}" changed from {expected} to {observed} ({when})'
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = frozenset({*HEARTBEAT_APIS, NOT_CAPTURED})
    kind = IdentityKind.MEMBERSHIP
    further_kinds = frozenset({IdentityKind.CLIENT})
    waits = True
    implies = ("kip1313/member-id-differs",)
    State = GroupMembers

    def on_request(self, request: Observation, conversation: Conversation, state: GroupMembers) -> Judgements:
        """Follow the members of each group."""
        if request.api_key not in HEARTBEAT_APIS and not lacks_api(request):
            return
        if isinstance(request.body, Heartbeat) and request.body.member_id is not None:
            yield from self._judge_heartbeat(request, request.body, conversation, state)
        else:
            yield from _forget(state, why_unread(request))

    def on_response(
        self, response: Observation, conversation: Conversation, state: GroupMembers
    ) -> Judgements:
        """Note the ID that the broker assigns to a member that joins without one."""
        body = response.body
        if response.api_key not in HEARTBEAT_APIS or not response.is_matched:
            return
        if not isinstance(body, HeartbeatResponse):
            # It may give an ID that the client adopts.
            yield from _forget(state, why_unread(response))
        elif body.member_id:
            for member in state.groups.values():
                if member.asked_from <= response.paired_sequence <= member.asked_until:
                    member.assigned_id = body.member_id

    def on_loss(self, loss: Observation, conversation: Conversation, state: GroupMembers) -> Judgements:
        """Forget the members: heartbeats may be missing."""
        yield from _forget(state, Reason.LOST_BYTES)

    def concerns(self, claim: Claim) -> bool:
        """Whether it is about an instance in a group, or about a client whose one member joins."""
        if claim.identity.kind is IdentityKind.MEMBERSHIP:
            return True
        return claim.membership is not None and claim.membership.joined_as is not None

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a process that joins a group which it was a member of on another connection."""
        if claim.identity.kind is IdentityKind.CLIENT:
            return _judge_process(claim, others)
        before = [other for other in others if _is_before(claim, other)]
        if not before or claim.membership is None or not claim.membership.joins:
            return None
        if any(other.member_id == claim.member_id for other in before):
            return conforms()
        previous = before[-1]
        if not claim.began_whole or not previous.whole:
            return undecided(why_partly_seen(claim, previous))
        if not previous.has_left or any(_goes_on(other, claim) for other in others):
            return undecided(Reason.AMBIGUOUS_PROCESS)
        return _changed(claim, previous)

    def close(self, conversation: Conversation, state: GroupMembers) -> Judgements:
        """Let the IDs that appeared beside a member's own replace it: no heartbeat follows."""
        if not conversation.ended:
            yield from _forget(state, Reason.NOT_ENDED)
        for group_id, member in state.groups.items():
            yield from _replace(group_id, member, conversation.members)

    def _judge_heartbeat(
        self, request: Observation, heartbeat: Heartbeat, conversation: Conversation, state: GroupMembers
    ) -> Judgements:
        group_id, member_id = heartbeat.group_id, heartbeat.member_id
        if not group_id:
            return
        member = state.groups.get(group_id)
        if not member_id or not heartbeat.has_member_id:
            if member is not None and _joins_without_id(request, heartbeat):
                member.asked_from, member.asked_until = request.first_sequence, request.last_sequence
                member.assigned_id = None
        elif member is None:
            yield from _make_room(state, request)
            state.groups[group_id] = GroupMember(member_id)
        elif member.shared:
            yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
        elif member_id == member.member_id:
            yield from _judge_own(member, request.count)
        elif _may_be_second(heartbeat, member, conversation):
            yield from _share(member, request.count)
        else:
            yield from _judge_other(request, group_id, member_id, member, conversation)


def _joins_without_id(request: Observation, heartbeat: Heartbeat) -> bool:
    """Whether the broker is to make the member ID, as version 0 lets it (KIP-848)."""
    is_old = (request.api_key, request.api_version) == (CONSUMER_GROUP_HEARTBEAT, 0)
    return is_old and heartbeat.member_epoch == JOINING


def _make_room(state: GroupMembers, request: Observation) -> Judgements:
    """Forget the first group if there are too many. The one that comes may have been forgotten before."""
    if len(state.groups) >= GROUPS_LIMIT:
        yield from _drop_rivals(state.groups.pop(next(iter(state.groups))), Reason.FORGOTTEN)
        yield undecided(Reason.FORGOTTEN, request.count)


def _judge_own(member: GroupMember, count: int) -> Judgements:
    """The member itself sends: IDs that appeared beside it belong to others on this connection."""
    if member.rivals:
        yield from _share(member)
    else:
        yield conforms(count)


def _judge_other(
    request: Observation, group_id: str, member_id: str, member: GroupMember, conversation: Conversation
) -> Judgements:
    facts = conversation.members.of(group_id, member.member_id)
    if member_id == facts.assigned_id:
        yield from _drop_rivals(member)
        member.member_id = member_id
        yield conforms(request.count)
    elif member.asked_until and member.assigned_id in (None, member_id):
        yield from _rejoin(request, member_id, member, facts)
    elif facts.has_left:
        yield _violates(group_id, member, member_id, request, "across leave and rejoin")
        member.member_id = member_id
    else:
        if member_id in member.rivals:
            member.pending += request.count
        elif len(member.rivals) < RIVALS_LIMIT:
            member.rivals[member_id] = request
        else:
            yield undecided(Reason.FORGOTTEN, request.count)
        silence = conversation.silence_of(group_id, member.member_id, request)
        if silence >= SILENT_INTERVALS * facts.heartbeat_interval * 1_000_000:
            yield from _replace(group_id, member, conversation.members)


def _may_be_second(heartbeat: Heartbeat, member: GroupMember, conversation: Conversation) -> bool:
    """Whether another ID may be that of another client, or of a member that came before.

    A client that changes its ID joins under the new one. Where something was missed, an ID that does not join
    may have been there from the beginning.
    """
    facts = conversation.members.of(heartbeat.group_id or "", member.member_id)
    if heartbeat.member_id in (facts.assigned_id, member.assigned_id):
        return False
    is_older = not conversation.heartbeats_seen and heartbeat.member_epoch != JOINING
    return is_older or conversation.shares_clients


def _share(member: GroupMember, count: int = 0) -> Judgements:
    """Several members use the connection: nothing tells what becomes of each."""
    yield from _drop_rivals(member)
    member.shared = True
    if count:
        yield undecided(Reason.AMBIGUOUS_PROCESS, count)


def _rejoin(request: Observation, member_id: str, member: GroupMember, facts: Member) -> Judgements:
    """Judge the ID that follows a join without one; it may be another member's if the first one lives on."""
    if not facts.has_left and not (facts.answered and facts.error_code != NO_ERROR):
        yield from _share(member, request.count)
        return
    yield from _drop_rivals(member)
    is_assigned = member.assigned_id is not None
    yield conforms(request.count) if is_assigned else undecided(Reason.NO_RESPONSE, request.count)
    member.member_id = member_id
    member.asked_from, member.asked_until, member.assigned_id = 0, 0, None


def _replace(group_id: str, member: GroupMember, members: Members) -> Judgements:
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
    return violates(
        expected=member.member_id,
        observed=member_id,
        context={"group": group_id, "expected": member.member_id, "observed": member_id, "when": when},
        subject=first,
    )


def _drop_rivals(member: GroupMember, reason: Reason = Reason.AMBIGUOUS_PROCESS) -> Judgements:
    """Give up the IDs that appeared beside a member's own: it is unknown who uses them."""
    if member.rivals:
        yield undecided(reason, len(member.rivals) + member.pending)
        member.rivals.clear()
        member.pending = 0


def _forget(state: GroupMembers, reason: Reason) -> Judgements:
    """Frames are missing: what was pending is undecided, and every group starts anew."""
    for member in state.groups.values():
        yield from _drop_rivals(member, reason)
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
        return undecided(Reason.NOT_SHOWN)
    when = "on another connection"
    if before.has_left:
        when = "across leave and rejoin"
    elif before.epoch == JOINING and before.error_code is None:
        when = "on a retry"
    return _joins_as(claim.group_id or "", previous.member_id or "", claim.member_id or "", when)


def _joins_as(group_id: str, expected: str, observed: str, when: str) -> Judgement:
    context = {"group": group_id, "expected": expected, "observed": observed, "when": when}
    return violates(expected=expected, observed=observed, context=context)


def _judge_process(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge a client's only member on a connection by the one on the connection before."""
    group_id, member_id = split_name(claim.only_member)
    before = [
        other
        for other in others
        if other.order < claim.order and split_name(other.only_member)[0] == group_id
    ]
    if not before or not _counts_on(claim, before[-1], others):
        return None
    previous = before[-1]
    if any(other.only_member == claim.only_member for other in before):
        return conforms()
    if any(other.only_member == previous.only_member and other.until > claim.since for other in others):
        return undecided(Reason.AMBIGUOUS_PROCESS)
    assert previous.membership is not None
    when = "on a retry" if previous.membership.error_code is None else "on another connection"
    return _joins_as(group_id, split_name(previous.only_member)[1], member_id, when)


def _counts_on(claim: Claim, previous: Claim, others: Sequence[Claim]) -> bool:
    """Whether correlation IDs show one process, whose earlier connection ended upon the join.

    Processes with one client instance ID are judged by that.
    """
    first, joined = claim.first_correlation_id, previous.membership
    if first is None or joined is None or joined.joined_as is None or joined.epoch != JOINING:
        return False
    if not claim.began_whole or not previous.whole:
        return False
    if claim.is_same_process(previous) or claim.has_other_principal(previous):
        return False
    if not previous.has_left or not claim.opened_after(previous.until):
        return False
    if claim.named_software != previous.named_software or not 0 < first - joined.joined_as <= BESIDE:
        return False
    fresh = [
        other.opened_at
        for other in others
        if other.begins_anew
        and other.opened_at <= claim.opened_at
        and other.until > previous.opened_at - LONGEST_IDLE
    ]
    # Of two processes that were there at once either may send what comes next.
    return not claim.begins_anew and len(fresh) <= 1 and not any(at > previous.opened_at for at in fresh)
