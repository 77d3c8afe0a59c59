"""kip1242/rebootstrap-with-ids."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided

SETTLING_TIME = 1_000_000_000
"""Nanoseconds after a response until the client has certainly read it."""


class RebootstrapWithIds(IdentityRule):
    """Checks that a client that was told to rebootstrap forgets the cluster and node that it knew.

    ## Why it matters
    With the old IDs it is refused again wherever it connects, and never finds its way back.

    ## Example
    `ApiVersions v5, cluster ID "A", node ID 3` is refused with error 129, and the next connection of
    the same client begins with cluster ID "A" again.

    ## What to do
    Discard cluster ID and node IDs when rebootstrapping begins, and give none until Metadata has given
    the new ones.

    ## What it does not cover
    A client is identified by its address, client ID and software, so two processes may look like one: if
    another connection of theirs was in use across the rebootstrap, it is undecided. So is a connection
    that was opened within a second of the response. IDs from Metadata in between may be used.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A client that rebootstraps discards the cluster ID and node information it had learnt."
    message = 'after a rebootstrap the next connection gives cluster "{cluster_id}" again'
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    implies = ("kip1242/misrouted",)
    kind = IdentityKind.CLIENT
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge the first connection after one that was told to rebootstrap."""
        alike = [other for other in others if _is_same_software(claim, other)]
        told = [other for other in alike if _rebootstrap_at(other) and other.opened_at < claim.opened_at]
        if not told or claim.software is None:
            return None
        refused = max(told, key=_rebootstrap_at)
        at = _rebootstrap_at(refused)
        if any(at < other.opened_at < claim.opened_at for other in alike) or at >= claim.opened_at:
            return None
        if not _gives_again(claim, refused):
            return conforms()
        if (
            not claim.began_whole
            or claim.opened_at < at + SETTLING_TIME
            or _is_explained(claim, refused, alike)
        ):
            return undecided()
        return self._violates(claim)

    def _violates(self, claim: Claim) -> Judgement:
        cluster_id = claim.software.cluster_id if claim.software else None
        return Judgement(
            Verdict.VIOLATES,
            expected="neither ClusterId nor NodeId",
            observed=f'cluster ID "{cluster_id}"',
            context={"cluster_id": cluster_id or ""},
        )


def _is_same_software(claim: Claim, other: Claim) -> bool:
    if claim.software is None or other.software is None:
        return False
    return (claim.software.name, claim.software.version) == (other.software.name, other.software.version)


def _rebootstrap_at(claim: Claim) -> int:
    return claim.negotiated.rebootstrap_at if claim.negotiated else 0


def _gives_again(claim: Claim, refused: Claim) -> bool:
    now, then = claim.software, refused.software
    if now is None or then is None or now.cluster_id is None:
        return False
    return now.cluster_id == then.cluster_id


def _is_explained(claim: Claim, refused: Claim, alike: Sequence[Claim]) -> bool:
    """Whether Metadata came in between, or another connection may be that of another process."""
    at = _rebootstrap_at(refused)
    return any(
        other.connection != refused.connection and other.opened_at < at < other.until for other in alike
    ) or any(other.negotiated and at < other.negotiated.described_at < claim.opened_at for other in alike)
