"""kip1313/sasl-handshake-raised."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.protocol import NO_ERROR, SASL_HANDSHAKE
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import NegotiationResponseRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided

HIGHEST = 1
"""The highest version of SaslHandshake."""


class SaslHandshakeRaised(NegotiationResponseRule):
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
    message = "the broker advertises SaslHandshake up to version {highest}"
    level = Level.VIOLATION
    role = Role.BROKER

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge each advertisement that lists SaslHandshake."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided()
        elif body.error_code == NO_ERROR:
            highest = max((high for key, _, high in body.ranges if key == SASL_HANDSHAKE), default=None)
            if highest is not None:
                yield conforms() if highest <= HIGHEST else _violates(highest)


def _violates(highest: int) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected=f"SaslHandshake up to version {HIGHEST}",
        observed=f"up to version {highest}",
        context={"highest": str(highest)},
    )
