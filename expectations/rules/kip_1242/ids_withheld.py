"""kip1242/ids-withheld."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import DESCRIBE_CLUSTER, METADATA
from decoders.wire.pairing import SETTLING_TIME
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class IdsWithheld(IdentityRule):
    """Checks that a client that knows the cluster says whom it means to reach.

    ## Why it matters
    If the address has passed to another broker, or to another cluster, nobody notices: the client goes on
    with stale metadata and fails later.

    ## Example
    A client reads Metadata. Then it connects to a broker with `ApiVersions v5`, without cluster ID and node
    ID, and sends FindCoordinator.

    ## What to do
    Give both IDs of Metadata in ApiVersions, on each connection but those that bootstrap. The Java client
    does so unless `metadata.cluster.check.enable` is false or `metadata.recovery.strategy` is `none`.

    ## What it does not cover
    It is information: the KIP lets users switch the check off, and the setting is not on the wire. A client
    is identified by its address, client ID, software and principal. A connection whose first use is Metadata
    or DescribeCluster may bootstrap, also anew. One that was opened within a second after the client learnt
    the IDs is not judged, nor one whose client learnt them unseen. It is told once of each client.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "After bootstrapping, a client supplies ClusterId and NodeId."
    needs = "an ApiVersions request of a client that has read Metadata on another connection"
    message = "a client that had read Metadata gave neither cluster nor node ID on another connection"
    level = Level.INFORMATION
    role = Role.CLIENT
    kind = IdentityKind.CLIENT
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether a connection is put to a use that needs Metadata before."""
        negotiated = claim.negotiated
        return negotiated is not None and negotiated.first_use not in (-1, METADATA, DESCRIBE_CLUSTER)

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a connection by whether the client had read Metadata on another one."""
        assert claim.negotiated is not None
        if claim.software is not None and claim.software.gives_ids:
            return conforms()
        alike = [other for other in others if _is_same_client(claim, other)]
        if not claim.negotiated.unidentified or not any(_had_taught(other, claim) for other in alike):
            return None
        if not claim.began_whole or not claim.whole:
            return undecided(why_partly_seen(claim))
        if any(self.concerns(other) and _withholds(other) and other.order < claim.order for other in alike):
            return None
        return violates(expected="both ClusterId and NodeId", observed="neither")


def _is_same_client(claim: Claim, other: Claim) -> bool:
    is_same_software = claim.named_software is not None and claim.named_software == other.named_software
    return is_same_software and claim.may_be_same_client(other)


def _had_taught(other: Claim, claim: Claim) -> bool:
    """Whether the client had certainly read Metadata before it opened a connection."""
    described_at = other.negotiated.described_at if other.negotiated is not None else 0
    return described_at > 0 and claim.opened_after(described_at + SETTLING_TIME)


def _withholds(claim: Claim) -> bool:
    return claim.negotiated is not None and claim.negotiated.unidentified and claim.whole
