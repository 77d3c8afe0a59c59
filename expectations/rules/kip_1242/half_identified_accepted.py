"""kip1242/half-identified-accepted."""

from __future__ import annotations

from decoders.protocol import NO_ERROR, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import ClaimResponseRule
from expectations.rules.base.reason import why_unanswered, why_unread
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, Verdict, conforms, undecided


class HalfIdentifiedAccepted(ClaimResponseRule):
    """Checks that a broker refuses a client that names a cluster without a broker, or the reverse.

    ## Why it matters
    The check of misrouted connections is then skipped without a word, and the client's mistake is
    never found.

    ## Example
    `ApiVersions v5, cluster ID null, node ID 3`, and a response with error 0 in version 5

    ## What to do
    Return INVALID_REQUEST, as Kafka does since 4.4, on every listener and before authentication, too.

    ## What it does not cover
    Responses in another version than the request's, and error 35: the broker did not read the IDs. It
    implies kip1242/half-identified.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A request that gives just one of ClusterId and NodeId is refused with INVALID_REQUEST."
    needs = "an ApiVersions request that names a cluster or a node alone"
    message = "an ApiVersions request with just one of ClusterId and NodeId was accepted"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip1242/half-identified",)

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge the response to a half-identified request."""
        if asked is None or not asked.claim.is_half_identified:
            return
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR and body.body_version == asked.request.api_version:
            yield Judgement(Verdict.VIOLATES, expected="error 42, INVALID_REQUEST", observed="error 0")
        elif body.error_code not in (NO_ERROR, UNSUPPORTED_VERSION):
            yield conforms()

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge closing the connection as a refusal; otherwise the response was not seen."""
        if asked.claim.is_half_identified:
            is_refused = conversation.was_refused_by_closing
            yield conforms() if is_refused else undecided(why_unanswered(conversation))
