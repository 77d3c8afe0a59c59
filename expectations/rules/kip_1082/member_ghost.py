"""kip1082/member-ghost."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import NO_ERROR
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided

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
    the connection was lost sooner it is undecided: nothing in it shows that time has passed. Heartbeats
    to coordinators whose traffic is not captured are not seen. A member whose latest heartbeat was
    refused is no ghost: the coordinator no longer has it, or never had it.
    """

    section = "Motivation"
    requirement = "A join that is repeated after a lost response leaves no member behind."
    message = 'member {member_id} of group "{group}" fell silent without leaving'
    level = Level.INFORMATION
    role = Role.CLIENT
    kind = IdentityKind.MEMBER
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge the connection on which a member was heard last."""
        membership, last = claim.membership, max((claim, *others), key=_latest)
        if membership is None or last is not claim or not _has_joined(claim, others):
            return None
        if membership.has_left:
            return conforms()
        is_over = all(each.has_left for each in (claim, *others))
        if not is_over or membership.error_code not in (None, NO_ERROR):
            return None
        if not claim.whole or membership.silence < LONGEST_SESSION:
            return undecided()
        return Judgement(
            Verdict.VIOLATES,
            expected="a heartbeat with which the member leaves",
            observed="silence",
            context={"member_id": claim.member_id or "", "group": claim.group_id or ""},
        )


def _latest(claim: Claim) -> tuple[int, int, bytes, int]:
    return claim.until, claim.since, claim.connection, claim.first_sequence


def _has_joined(claim: Claim, others: Sequence[Claim]) -> bool:
    return any(each.membership is not None and each.membership.joins for each in (claim, *others))
