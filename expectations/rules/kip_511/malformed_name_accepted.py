"""kip511/malformed-name-accepted."""

from __future__ import annotations

from decoders.protocol import NO_ERROR, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import ClaimResponseRule
from expectations.rules.base.reason import why_unanswered, why_unread
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, Verdict, conforms, undecided
from expectations.rules.kip_511._software_pattern import is_claim_well_formed


class MalformedNameAccepted(ClaimResponseRule):
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
    Which of the two readings of the pattern is right: the finding goes by the one that applies. A
    response in another version than the request's, and error 35, say that the broker did not read the
    fields. It implies kip511/software-name-malformed or kip511/software-version-malformed.
    """

    section = "Proposed Changes, Validation"
    requirement = "A malformed software name or version is refused with INVALID_REQUEST."
    needs = "an ApiVersions request with a malformed software name or version"
    message = 'the malformed client software "{name}", version "{version_text}" was accepted'
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip511/software-name-malformed", "kip511/software-version-malformed")

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge the response to a malformed claim."""
        if asked is None or is_claim_well_formed(asked.claim, self.spec):
            return
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR and body.body_version == asked.request.api_version:
            yield Judgement(
                Verdict.VIOLATES,
                expected="error 42, INVALID_REQUEST",
                observed="error 0",
                context={"name": asked.claim.name, "version_text": asked.claim.version},
            )
        elif body.error_code not in (NO_ERROR, UNSUPPORTED_VERSION):
            yield conforms()

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge closing the connection as a refusal; otherwise the response was not seen."""
        if not is_claim_well_formed(asked.claim, self.spec):
            is_refused = conversation.was_refused_by_closing
            yield conforms() if is_refused else undecided(why_unanswered(conversation))
