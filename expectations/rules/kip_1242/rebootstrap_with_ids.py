"""kip1242/rebootstrap-with-ids."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from decoders.wire.pairing import SETTLING_TIME
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

ENOUGH = 3
"""Connections in sequence that must have been refused for one cluster ID."""
LONGEST_SEQUENCE = 16
"""Refusals in sequence that are looked at. The bound limits what 64 refused connections cost to compare."""
ANSWERED_WITHIN = 30_000_000_000
"""Nanoseconds that a client waits for a response: the default of `request.timeout.ms`."""


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
    A client is identified by its address, client ID and software, so two processes may look like one. One
    reconnect is therefore undecided if another connection of theirs was in use across the rebootstrap,
    or if it was opened within a second of the response. At any pace, three refusals of one cluster ID prove
    it, if each connection was opened after the refusal before: a client that obeys is refused once. There
    must be more refusals than other connections, since each of those may belong to another process. IDs from
    Metadata in between may be used: a load balancer may lead to the wrong broker again. Metadata from brokers
    whose traffic is not captured is not seen.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A client that rebootstraps discards the cluster ID and node information it had learnt."
    needs = "a client that is told to rebootstrap and connects again"
    message = 'after a rebootstrap the next connection gives cluster "{cluster_id}" again'
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    implies = ("kip1242/misrouted",)
    kind = IdentityKind.CLIENT
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a connection after others that were told to rebootstrap."""
        if _is_refused_again(claim, others):
            return self._violates(claim)
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
        doubt = _doubt(claim, refused, alike)
        return self._violates(claim) if doubt is None else undecided(doubt)

    def _violates(self, claim: Claim) -> Judgement:
        cluster_id = claim.software.cluster_id if claim.software else None
        return violates(
            expected="neither ClusterId nor NodeId",
            observed=f'cluster ID "{cluster_id}"',
            context={"cluster_id": cluster_id or ""},
        )


def _is_same_software(claim: Claim, other: Claim) -> bool:
    return claim.named_software is not None and claim.named_software == other.named_software


def _rebootstrap_at(claim: Claim) -> int:
    return claim.negotiated.rebootstrap_at if claim.negotiated else 0


def _gives_again(claim: Claim, refused: Claim) -> bool:
    now, then = claim.software, refused.software
    if now is None or then is None or now.cluster_id is None:
        return False
    return now.cluster_id == then.cluster_id


def _doubt(claim: Claim, refused: Claim, alike: Sequence[Claim]) -> Reason | None:
    """Return why the IDs may be given by another process, or by one that was not yet told."""
    if not claim.began_whole:
        return why_partly_seen(claim)
    if claim.opened_at < _rebootstrap_at(refused) + SETTLING_TIME:
        return Reason.UNDER_WAY
    return Reason.AMBIGUOUS_PROCESS if _is_explained(claim, refused, alike) else None


def _is_explained(claim: Claim, refused: Claim, alike: Sequence[Claim]) -> bool:
    """Whether Metadata came in between, or another connection may be that of another process."""
    at = _rebootstrap_at(refused)
    return any(
        other.connection != refused.connection and other.opened_at < at < other.until for other in alike
    ) or any(other.negotiated and at < other.negotiated.described_at < claim.opened_at for other in alike)


def _is_refused_again(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether one cluster ID was refused on so many connections in sequence that one process gave them.

    Nothing may have taught that process the IDs again after the first refusal of the sequence.
    """
    sequence = _refused_in_sequence(claim, others)
    if len(sequence) < ENOUGH:
        return False
    meanwhile = [other for other in (claim, *others) if _may_be_same_client(claim, other)]
    beside = [_heard_until(other) for other in meanwhile if not _is_same_refusal(claim, other)]
    taught = max((_heard_until(other) for other in meanwhile if _may_be_taught(other, claim)), default=0)
    for count in range(ENOUGH, len(sequence) + 1):
        since = _rebootstrap_at(sequence[-count])
        if taught <= since and count > sum(until > since for until in beside):
            return True
    return False


def _refused_in_sequence(claim: Claim, others: Sequence[Claim]) -> list[Claim]:
    """Return connections that were refused for one cluster ID, each opened after the one before was refused.

    The last of at most LONGEST_SEQUENCE is the claim's. If several could come before another one, the one
    that was opened latest is taken.
    """
    alike, sequence = [other for other in others if _is_same_refusal(claim, other)], [claim]
    while len(sequence) < LONGEST_SEQUENCE:
        before = [other for other in alike if sequence[0].opened_after(_rebootstrap_at(other))]
        before = [other for other in before if not any(map(other.may_be_copy_of, sequence))]
        if not before:
            break
        sequence.insert(0, max(before, key=lambda other: (other.opened_at, other.connection)))
    return sequence


def _is_same_refusal(claim: Claim, other: Claim) -> bool:
    if claim.negotiated is None or other.negotiated is None:
        return False
    refused, before = claim.negotiated.refused_ids, other.negotiated.refused_ids
    if refused is None or before is None:
        return False
    return (
        refused.cluster_id == before.cluster_id
        and _is_same_software(claim, other)
        and claim.instance_id == other.instance_id
    )


def _may_be_same_client(claim: Claim, other: Claim) -> bool:
    """Whether a connection that was opened before a claim's refusal may be of the same client."""
    is_before = other.opened_at < _rebootstrap_at(claim)
    return is_before and (other.software is None or _is_same_software(claim, other))


def _heard_until(claim: Claim) -> int:
    """Return until when a connection may have been in use, in nanoseconds since the epoch."""
    return claim.until + ANSWERED_WITHIN if claim.has_left else sys.maxsize


def _may_be_taught(other: Claim, claim: Claim) -> bool:
    """Whether a connection may have brought Metadata before the claim's own was refused."""
    described_at = other.negotiated.described_at if other.negotiated is not None else 0
    return not other.whole or 0 < described_at < _rebootstrap_at(claim)
