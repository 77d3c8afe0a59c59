"""kip1082/member-ghost."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import NO_ERROR
from expectations.conversation.members import split_name
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

LONGEST_SESSION = 60_000_000_000
"""Nanoseconds: the longest session of a member by default (`group.consumer.max.session.timeout.ms`)."""


class MemberGhost(IdentityRule):
    """Checks that a member that joined a group leaves it before it falls silent.

    ## Why it matters
    Until its session times out, the coordinator keeps the member and its partitions: nobody reads them. The
    KIP lets clients make the member ID so that a retried join leaves no such ghost behind.

    ## Example
    `ConsumerGroupHeartbeat v1, member "A", epoch 0` gets no response. The client goes on under member ID "B",
    and member "A" is never heard again.

    ## What to do
    Retry with the same member ID. Leave the group on shutdown, with a heartbeat of epoch -1. Look for
    processes that were killed or crashed.

    ## What it does not cover
    It is information: a client may have good reasons. A member is a ghost when its connection went on for
    60 s after its latest heartbeat, the longest session that brokers grant by default, and no other
    connection went on for it. It is judged when its connections have ended, if its join was seen. Where
    the connection was lost sooner it is undecided, because nothing in it shows that time has passed; it is
    told all the same once another connection of the same client address and client ID goes on in the group
    for a session, at the same coordinator. Heartbeats to coordinators whose traffic is not captured are not
    seen. A member whose latest heartbeat was refused is no ghost: the coordinator no longer has it, or never
    had it. Where a heartbeat or its response could not be read, it is undecided.
    """

    section = "Motivation"
    requirement = "A join that is repeated after a lost response leaves no member behind."
    needs = "a member that joins a group of the new protocols, and falls silent or leaves"
    message = 'member {member_id} of group "{group}" fell silent without leaving'
    level = Level.INFORMATION
    role = Role.CLIENT
    kind = IdentityKind.MEMBER
    further_kinds = frozenset({IdentityKind.CLIENT})
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the claim is about a member, or about a client whose only member was cut short."""
        return claim.identity.kind is IdentityKind.MEMBER or _is_cut_short(claim)

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a member by its connections, and by those on which the client goes on without it."""
        if claim.identity.kind is IdentityKind.CLIENT:
            group_id, member_id = split_name(claim.only_member)
            return _silent(group_id, member_id) if _is_outlived(claim, others) else None
        return _judge_member(claim, others)


def _judge_member(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge the connection on which a member was heard last by how long it went on."""
    membership, last = claim.membership, max((claim, *others), key=_latest)
    if membership is None or last is not claim or not _has_joined(claim, others):
        return None
    if membership.has_left:
        return conforms()
    is_over = all(each.has_left for each in (claim, *others))
    if not is_over or membership.error_code not in (None, NO_ERROR):
        return None
    if not claim.whole:
        return undecided(why_partly_seen(claim))
    if membership.silence < LONGEST_SESSION:
        return undecided(Reason.NOT_SHOWN)
    return _silent(claim.group_id or "", claim.member_id or "")


def _silent(group_id: str, member_id: str) -> Judgement:
    return violates(
        expected="a heartbeat with which the member leaves",
        observed="silence",
        context={"member_id": member_id, "group": group_id},
    )


def _is_cut_short(claim: Claim) -> bool:
    """Whether a connection ended within the session of its only member, which had joined and not left."""
    membership = claim.membership
    if membership is None or not claim.has_left or not claim.whole:
        return False
    is_member = membership.joins and not membership.has_left and membership.error_code in (None, NO_ERROR)
    return is_member and membership.silence < LONGEST_SESSION


def _is_outlived(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether the client goes on in the group, at the same coordinator, and the member is not heard again."""
    group_id, _ = split_name(claim.only_member)
    beside = [other for other in others if split_name(other.only_member)[0] == group_id]
    if any(other.only_member == claim.only_member and other.until > claim.since for other in beside):
        return False
    return any(
        other.server == claim.server and other.until >= claim.until + LONGEST_SESSION for other in beside
    )


def _latest(claim: Claim) -> tuple[int, int, bytes, int]:
    return claim.until, claim.since, claim.connection, claim.first_sequence


def _has_joined(claim: Claim, others: Sequence[Claim]) -> bool:
    return any(each.membership is not None and each.membership.joins for each in (claim, *others))
