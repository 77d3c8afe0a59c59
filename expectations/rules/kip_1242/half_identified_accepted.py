"""kip1242/half-identified-accepted."""

from __future__ import annotations

from expectations.conversation.bodies import SoftwareClaim
from expectations.rules.base.negotiation_rule import WrongClaimAcceptedRule
from expectations.rules.base.rule import Level, Role


class HalfIdentifiedAccepted(WrongClaimAcceptedRule):
    """Checks that a broker refuses a client that names a cluster without a broker, or the reverse.

    ## Why it matters
    The check of misrouted connections is then skipped without a word, and the client's mistake is
    never found.

    ## Example
    `ApiVersions v5, cluster ID null, node ID 3`, and a response with error 0 in version 5

    ## What to do
    Return INVALID_REQUEST, as Kafka does since 4.4, on every listener and before authentication, too.

    ## What it does not cover
    Responses in another version than the request's, and error 35: the broker did not read the IDs. Any other
    error, and closing the connection, count as a refusal.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A request that gives just one of ClusterId and NodeId is refused with INVALID_REQUEST."
    needs = "an ApiVersions request that names a cluster or a node alone"
    message = "an ApiVersions request with just one of ClusterId and NodeId was accepted"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip1242/half-identified",)

    def is_wrong(self, claim: SoftwareClaim) -> bool:
        """Whether exactly one of the two IDs is given."""
        return claim.is_half_identified
