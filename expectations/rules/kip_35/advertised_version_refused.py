"""kip35/advertised-version-refused."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided

ENOUGH = 3
"""Connections on which the same version must have been refused, one after another."""


class AdvertisedVersionRefused(IdentityRule):
    """Checks that a broker takes the versions that it advertises.

    ## Why it matters
    The client did all that the KIP asks of it, and its connection is closed without a word. It has no
    way to find out which version to use.

    ## Example
    The ApiVersions response lists `Metadata 0 to 13`. On three connections in a row the broker closes
    after `Metadata v13`, and it never responded to that version.

    ## What to do
    Compare what the broker advertises with what it supports; look for a proxy that passes on the list
    of a broker that is not its own.

    ## What it does not cover
    A close may have many reasons. So it counts only if the request was the only one without a response,
    on connections one after another (a broker that stops closes all at once), and if no response to that
    version was seen at this address; less is undecided. Error 35 in a well-formed response of another API
    conforms. Produce 0 to 2 is not judged: released brokers advertise those versions without having
    them, for the sake of old clients, and no schema has them any more.
    """

    section = "Proposed Changes, ApiVersionResponse"
    requirement = "A broker supports every version that it advertises and does not disconnect for one."
    message = "{api} v{version}, which is advertised, was refused {how}"
    level = Level.VIOLATION
    role = Role.BROKER
    kind = IdentityKind.BROKER
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a refusal by all that the broker refused and responded to."""
        if claim.refused is None:
            return None
        if claim.refused.by_error:
            return self._violates("with error 35")
        alike = [other for other in others if other.refused == claim.refused]
        if any(_has_response(claim, other) for other in others):
            return conforms()
        if _in_a_row([claim, *alike]) < ENOUGH:
            return undecided()
        return self._violates(f"by closing the connection, at least {ENOUGH} times")

    def _violates(self, how: str) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            expected="an answer in the version of the request",
            observed=f"refused {how}",
            context={"how": how},
        )


def _has_response(claim: Claim, other: Claim) -> bool:
    same = (other.api_key, other.api_version) == (claim.api_key, claim.api_version)
    return other.refused is None and same


def _in_a_row(claims: Sequence[Claim]) -> int:
    """Count connections in a row, each of which began after the one before was closed."""
    count, closed_at = 0, -1
    for claim in sorted(claims, key=lambda refused: refused.order):
        if claim.opened_at > closed_at:
            count, closed_at = count + 1, claim.since
    return count
