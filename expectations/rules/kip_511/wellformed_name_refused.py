"""kip511/wellformed-name-refused."""

from __future__ import annotations

from decoders.protocol import INVALID_REQUEST, NO_ERROR
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import ClaimResponseRule
from expectations.rules.base.reason import Reason, why_unanswered, why_unread
from expectations.rules.base.rule import Judgements, Level, Role, Spec, conforms, undecided, violates
from expectations.rules.kip_511._software_pattern import is_claim_well_formed


class WellformedNameRefused(ClaimResponseRule):
    """Checks that a broker does not refuse a client whose software name and version are well formed.

    ## Why it matters
    A client that is refused must close the connection: it cannot use the cluster at all.

    ## Example
    `ApiVersions v3, client software "librdkafka", version "2.15.0"`, and a response with error 42

    ## What to do
    Compare the broker's validation with the pattern of the KIP. If a proxy or another
    implementation of the protocol responds, report it there.

    ## What it does not cover
    Values that only one of the two readings of the pattern allows, and requests that give a cluster without
    a node or a node without a cluster (KIP-1242). A refusal is undecided where the broker may object to
    something else: an instance ID that the connection uses, or bytes that Kafka would not write there, such
    as trailing ones.
    """

    section = "Proposed Changes, Validation"
    requirement = "Only a software name or version outside the pattern is refused with INVALID_REQUEST."
    needs = "an ApiVersions request with a well-formed software name and version"
    message = 'the well-formed client software "{name}", version "{version_text}" was refused'
    level = Level.VIOLATION
    role = Role.BROKER

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge whether a claim that is valid in every reading was accepted."""
        if asked is None or not _is_valid(asked):
            return
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR:
            yield conforms()
        elif body.error_code != INVALID_REQUEST:
            return
        elif _is_bound_to_id(asked, conversation) or not asked.request.is_clean:
            yield undecided(Reason.OTHER_CAUSE)
        else:
            observed = "error 42, INVALID_REQUEST"
            context = {"name": asked.claim.name, "version_text": asked.claim.version}
            yield violates(expected="any response but INVALID_REQUEST", observed=observed, context=context)

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge a valid claim as undecided: it may have been refused."""
        if _is_valid(asked):
            yield undecided(why_unanswered(conversation))


def _is_valid(asked: Asked) -> bool:
    in_both = all(is_claim_well_formed(asked.claim, spec) for spec in (Spec.SHIPPED, Spec.TEXT))
    return in_both and not asked.claim.is_half_identified


def _is_bound_to_id(asked: Asked, conversation: Conversation) -> bool:
    """Whether the broker may have refused the request for its client instance ID (KIP-1313)."""
    return asked.request.uses_header_v3 or conversation.instance_id is not None
