"""kip35/negotiation-not-repeated."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class NegotiationNotRepeated(IdentityRule):
    """Checks that a client that asks for the versions does so on each connection.

    ## Why it matters
    The broker may have been upgraded or downgraded in between. A client that goes by an older response
    uses versions that are gone, and is disconnected.

    ## Example
    Client "orders" asks ApiVersions on its first connection to a broker; on the second one it begins
    with Metadata and never asks.

    ## What to do
    Keep the advertised versions with the connection and forget them when it closes.

    ## What it does not cover
    ApiVersions is optional: clients that never ask are not judged. A client is identified by its address
    and its client ID, so two programs that share both look like one: the finding is of level information
    unless both connections carry one client instance ID. If connections without ApiVersions came before the
    first one with it, it is undecided. Connections with different client instance IDs, or principals, are
    not compared. A connection is judged when it has ended, if all of it was seen.
    """

    section = "Proposed Changes"
    requirement = "After a disconnection the client obtains the supported versions from the broker again."
    needs = "a client that asks for the versions and connects again"
    message = "the connection was used without ApiVersions, which the client asked on an earlier one"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kind = IdentityKind.CLIENT
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a connection that was used, against earlier ones to the same server."""
        earlier = [other for other in others if _is_earlier(claim, other) and claim.may_be_same_client(other)]
        asked = [other for other in earlier if _has_asked(other)]
        if not asked or claim.negotiated is None or not claim.negotiated.used_at:
            return None
        if _has_asked(claim):
            return conforms()
        if not claim.has_left:
            return None
        first = min(other.opened_at for other in asked)
        if not claim.whole:
            return undecided(why_partly_seen(claim))
        if any(_is_plain(other) and other.opened_at < first for other in earlier):
            return undecided(Reason.AMBIGUOUS_PROCESS)
        return violates(
            expected="ApiVersions on each connection",
            observed="none on this one",
            level=self.level if any(map(claim.is_same_process, asked)) else Level.INFORMATION,
        )


def _is_earlier(claim: Claim, other: Claim) -> bool:
    same_server = other.server == claim.server
    return same_server and (other.opened_at, other.connection) < (claim.opened_at, claim.connection)


def _has_asked(claim: Claim) -> bool:
    return claim.negotiated is not None and claim.negotiated.asked_at > 0


def _is_plain(claim: Claim) -> bool:
    return claim.negotiated is not None and claim.negotiated.used_at > 0 and not _has_asked(claim)
