"""kip1242/half-identified."""

from __future__ import annotations

from decoders.protocol import NAMES_BROKER_FROM
from expectations.conversation.negotiation import Asked
from expectations.rules.base.negotiation_rule import ClaimRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, violates


class HalfIdentified(ClaimRule):
    """Checks that a client names both the cluster and the broker that it means to reach, or neither.

    ## Why it matters
    The broker returns INVALID_REQUEST, and the client cannot use the connection.

    ## Example
    `ApiVersions v5, cluster ID "MkU3OEVBNTcwNTJENDM2Qk", node ID -1`

    ## What to do
    Give both IDs when they are known from Metadata, and neither while bootstrapping. A node ID below
    zero that stands for a bootstrap address must not be sent.

    ## What it does not cover
    Whether the IDs are right. A node ID counts as given when it is not -1, a cluster ID when it is
    not null: an empty one is given, as in released Kafka. Versions that the broker does not support
    are not read by it, so they are not judged.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "ApiVersions gives both ClusterId and NodeId, or neither of them."
    needs = "an ApiVersions request of version 5 or newer"
    message = "the client gives {given}"
    level = Level.VIOLATION
    role = Role.CLIENT
    first_version = NAMES_BROKER_FROM

    def judge_claim(self, asked: Asked) -> Judgement:
        """Judge which of the two are given."""
        claim = asked.claim
        if not claim.is_half_identified:
            return conforms()
        given = f"node ID {claim.node_id} alone" if claim.cluster_id is None else "a cluster ID alone"
        return violates(
            expected="both ClusterId and NodeId, or neither",
            observed=given,
            context={"given": given},
            subject=asked.request,
        )
