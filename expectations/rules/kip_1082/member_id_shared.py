"""kip1082/member-id-shared."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.same_client import came_second, may_be_translated, software_of
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class MemberIdShared(IdentityRule):
    """Checks that no two connections heartbeat in turns for one member of a group.

    ## Why it matters
    The coordinator takes both for one member: their epochs and assignments get mixed, both are fenced
    again and again, and partitions are read twice or not at all.

    ## Example
    Connection 1 heartbeats as member "A", connection 2 joins as member "A", and connection 1 goes on
    heartbeating. The finding is about connection 2, and names both.

    ## What to do
    Generate the member ID from a good source of randomness, for each consumer object anew. Look for
    processes that fork after the ID was made, and for a weak seed.

    ## What it does not cover
    Which of two clients copied the ID is not known, only whose connection showed it first. A finding is about
    the other client, the one that came second, even if the first one reconnects beside it: that is undecided,
    unless what the first one did before becomes known only later, as from a feeder that lags: then both may
    be accused. A client that moves to another connection: the first one falls silent. One more heartbeat on
    it may be a late retransmission of what the client had given up, and is undecided; a second one is not. A
    member that left in between may come back: if bytes were lost or heartbeats could not be read since the
    first one of a connection, it is undecided. Connections with the same addresses and ports at one time are
    one connection that two feeders see. Connections of different hosts may be one connection, captured on
    both sides of an address translation by clocks that differ. It is undecided if both open and send
    heartbeats at one offset (10 ms more or less, 1 s at most), of which the opening or the first heartbeat
    may differ, also because bytes before it were lost, or if one was joined midway, until a heartbeat of one
    comes between two of the other.
    """

    section = "Proposed Changes, Duplicate Member ID"
    requirement = "A member ID is unique in its group: each member generates its own."
    needs = "heartbeats of one member on two connections, such as after a reconnection"
    message = 'member {member_id} of group "{group}" also heartbeats from {other}, whose client came first'
    level = Level.VIOLATION
    role = Role.CLIENT
    kind = IdentityKind.MEMBER

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare a connection with those that send heartbeats for the member beside it, or did before."""
        comparable = [other for other in others if _is_another(claim, other)]
        rivals = [other for other in comparable if _are_rivals(claim, other)]
        shown = [other for other in rivals if not may_be_translated(claim, other)]
        first = next((other for other in shown if came_second(claim, other, others)), None)
        if first is not None and (_may_have_left(claim) or _may_have_left(first)):
            return undecided(Reason.LOST_BYTES)
        if first is not None:
            return self._violates(claim, first)
        before = [other for other in comparable if other.order < claim.order]
        if not before:
            return None
        if any(other.order < claim.order for other in rivals):
            return undecided(Reason.AMBIGUOUS_PROCESS if shown else Reason.SEEN_TWICE)
        is_late = any(other.until > claim.since for other in before)
        return undecided(Reason.UNDER_WAY) if is_late else conforms()

    def _violates(self, claim: Claim, rival: Claim) -> Judgement:
        member_id, group_id = claim.member_id or "", claim.group_id or ""
        return violates(
            expected="a member ID that only one connection uses",
            observed=f"{member_id} at {rival.client}, too",
            context={
                "member_id": member_id,
                "group": group_id,
                "other": rival.client,
                "other_software": software_of(rival),
            },
        )


def _is_another(claim: Claim, other: Claim) -> bool:
    """Whether the other connection is one to the same server, and not the same one, seen twice."""
    is_same = other.connection == claim.connection or other.has_addresses_of(claim)
    return not is_same and other.server == claim.server


def _may_have_left(claim: Claim) -> bool:
    """Whether a heartbeat with which the member left may be missing since the connection showed it first."""
    return claim.began_whole and not claim.whole


def _are_rivals(claim: Claim, other: Claim) -> bool:
    """Whether the earlier one of two connections goes on although the later one has begun."""
    earlier, later = sorted((claim, other), key=lambda each: each.order)
    return earlier.before_until > later.since
