"""kip1313/instance-id-not-kept."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.conversation.texts import RESERVED_UUIDS, identifier_bytes, identifier_text
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class InstanceIdNotKept(IdentityRule):
    """Checks that a client that comes back with its member ID comes back with its client instance ID.

    ## Why it matters
    Both IDs stand for the life of one client instance. A client that makes a new instance ID for each
    connection cannot be followed across them, which is all that the ID is for.

    ## Example
    Member `4vGZ…` heartbeats on a connection with the instance ID `7b6e…`, and after a reconnect on
    one with the instance ID `91c0…`.

    ## What to do
    Generate the instance ID once, in the client's constructor, and hand it to every connection.

    ## What it does not cover
    Member IDs that are no UUID, or a reserved one: nothing says that they are made only once.
    Connections without an instance ID. One that was not seen from its beginning may have shown
    another ID before: undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "A client keeps its client instance ID for its whole lifetime."
    needs = "a member that comes back on another connection under header v3"
    message = "member {member_id} came back with client instance ID {observed} instead of {expected}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = ("kip1313/member-id-differs",)
    kind = IdentityKind.MEMBER

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare the instance ID of a connection with those of all earlier connections."""
        member = identifier_bytes(claim.member_id or "")
        if member is None or member in RESERVED_UUIDS or claim.instance_id is None:
            return None
        before = [other for other in others if _is_before(claim, other)]
        if not before:
            return None
        unlike = [other for other in before if other.instance_id != claim.instance_id]
        if not unlike:
            return conforms()
        certain = [other for other in unlike if other.began_whole and claim.began_whole]
        if not certain:
            return undecided(why_partly_seen(claim, *unlike))
        expected = identifier_text(certain[-1].instance_id or b"")
        observed = identifier_text(claim.instance_id)
        context = {"member_id": claim.member_id or "", "expected": expected, "observed": observed}
        return violates(expected=expected, observed=observed, context=context)


def _is_before(claim: Claim, other: Claim) -> bool:
    return (
        other.connection != claim.connection and other.instance_id is not None and other.order < claim.order
    )
