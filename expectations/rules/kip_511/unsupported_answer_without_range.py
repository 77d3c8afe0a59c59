"""kip511/unsupported-answer-without-range."""

from __future__ import annotations

from expectations.conversation.bodies import NO_LAYOUT, Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked, own_range
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import NegotiationResponseRule
from expectations.rules.base.reason import Reason, why_unread
from expectations.rules.base.rule import Judgements, Level, Role, conforms, undecided, violates


class UnsupportedAnswerWithoutRange(NegotiationResponseRule):
    """Checks that a refusal of an ApiVersions version lists the supported versions.

    ## Why it matters
    Without the range the client can only fall back to version 0, in which it cannot give its software
    name and version: it stays "unknown" to the operator.

    ## Example
    `ApiVersions v5`, and a response with error 35 and an empty list

    ## What to do
    Upgrade the broker: Kafka names the range since 2.4. Other implementations should list API key 18
    in the refusal.

    ## What it does not cover
    The layout of the refusal: see kip511/unsupported-answer-not-v0. A refusal that could not be read
    to its end is undecided.
    """

    section = "Proposed Changes, ApiVersions Request/Response Handling"
    requirement = "The response with error 35 lists the versions of ApiVersions that the broker supports."
    needs = "an ApiVersions request in a version that the broker lacks"
    message = "the refusal of ApiVersions v{version} does not tell which versions are supported"
    level = Level.IMPROVEMENT
    role = Role.BROKER

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge each response with error 35."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.body_version == NO_LAYOUT:
            yield undecided(Reason.UNREADABLE)
        elif not body.refuses_version:
            return
        elif own_range(body) is not None:
            yield conforms()
        else:
            yield violates(
                expected="an entry for API key 18",
                observed=f"{len(body.ranges)} entries, none of them for API key 18",
            )
