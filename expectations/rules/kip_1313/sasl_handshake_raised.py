"""kip1313/sasl-handshake-raised."""

from __future__ import annotations

from decoders.protocol import SASL_HANDSHAKE
from expectations.conversation.bodies import Advertisement
from expectations.rules.base.negotiation_rule import AdvertisementRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, violates

HIGHEST = 1
"""The highest version of SaslHandshake."""


class SaslHandshakeRaised(AdvertisementRule):
    """Checks that a broker does not advertise SaslHandshake above version 1.

    ## Why it matters
    Java clients before 2.5 take the highest version that the broker advertises, whether they know it or not.
    A broker that advertises version 2 locks them out: they cannot authenticate.

    ## Example
    An ApiVersions response that lists `SaslHandshake 0 to 2`

    ## What to do
    Leave SaslHandshake at version 1 when the other APIs get a version on request header v3.

    ## What it does not cover
    What else the broker advertises: old clients are locked out whether or not it knows header v3. A
    response that could not be read is undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "SaslHandshake cannot get a new version, because clients negotiated it wrongly in the past."
    needs = "a broker's list of versions that has SaslHandshake"
    message = "the broker advertises SaslHandshake up to version {highest}"
    level = Level.VIOLATION
    role = Role.BROKER

    def judge_advertisement(self, advertisement: Advertisement) -> Judgement | None:
        """Judge an advertisement that lists SaslHandshake."""
        highest = max((high for key, _, high in advertisement.ranges if key == SASL_HANDSHAKE), default=None)
        if highest is None:
            return None
        if highest <= HIGHEST:
            return conforms()
        return violates(
            expected=f"SaslHandshake up to version {HIGHEST}",
            observed=f"up to version {highest}",
            context={"highest": str(highest)},
        )
