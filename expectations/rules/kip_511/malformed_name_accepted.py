"""kip511/malformed-name-accepted."""

from __future__ import annotations

from expectations.conversation.bodies import SoftwareClaim
from expectations.rules.base.negotiation_rule import WrongClaimAcceptedRule
from expectations.rules.base.rule import Level, Role
from expectations.rules.kip_511._software_pattern import is_claim_well_formed


class MalformedNameAccepted(WrongClaimAcceptedRule):
    """Checks that a broker refuses a malformed client software name or version.

    ## Why it matters
    The two become part of a metric's name and of the request log. A broker that takes anything hands
    its monitoring over to whoever connects.

    ## Example
    `ApiVersions v3, client software name "RP Console"`, and a response with error 0 in version 3

    ## What to do
    Validate both fields before responding and return INVALID_REQUEST. Kafka does so since 2.4: look
    for a proxy that responds in the broker's place.

    ## What it does not cover
    Which of the two readings of the pattern is right: the finding goes by the one that applies. Responses in
    another version than the request's, and error 35: the broker did not read the fields. Any other error, and
    closing the connection, count as a refusal.
    """

    section = "Proposed Changes, Validation"
    requirement = "A malformed software name or version is refused with INVALID_REQUEST."
    needs = "an ApiVersions request with a malformed software name or version"
    message = 'the malformed client software "{name}", version "{version_text}" was accepted'
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip511/software-name-malformed", "kip511/software-version-malformed")

    def is_wrong(self, claim: SoftwareClaim) -> bool:
        """Whether the name or the version is malformed."""
        return not is_claim_well_formed(claim, self.spec)

    def context(self, claim: SoftwareClaim) -> dict[str, str]:
        """Return the name and the version."""
        return {"name": claim.name, "version_text": claim.version}
