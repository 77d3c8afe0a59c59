"""kip511/unsupported-answer-not-v0."""

from __future__ import annotations

from decoders.protocol import API_VERSIONS, NO_ERROR
from expectations.conversation.bodies import NO_LAYOUT, OTHER_HEADER, Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked, own_range
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import ClaimResponseRule
from expectations.rules.base.reason import Reason, why_unanswered, why_unread
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, conforms, undecided, violates


class UnsupportedAnswerNotV0(ClaimResponseRule):
    """Checks that a broker refuses an unsupported version of ApiVersions in the layout of version 0.

    ## Why it matters
    The client cannot know in which layout a broker responds to a version that it does not have. Version 0
    is the one that every client reads; any other leaves it with bytes that make no sense.

    ## Example
    `ApiVersions v5` to a broker that has versions 0 to 4, and a response with error 35 in version 4. Or one
    whose first two bytes say error 35, while the rest fits no version: librdkafka's mock broker writes such.

    ## What to do
    Respond to an unsupported version with response header 0, body version 0 and error 35.

    ## What it does not cover
    Requests on header v3, which released brokers misread: kip1313/header-v3-before-negotiation. A version
    whose own response lists it is supported by now, as after an upgrade behind a proxy. A response that was
    cut is undecided unless its version was advertised before, and so is one that fits no version and may
    belong to a lost request. What a client does after a refusal that it cannot read is not held against it.
    """

    section = "Proposed Changes, ApiVersions Request/Response Handling"
    requirement = "An unsupported version of ApiVersions is refused in version 0, with error 35."
    needs = "an ApiVersions request in a version that the broker lacks"
    message = "version {version} of ApiVersions, which is not supported, was answered with {observed}"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip511/wellformed-name-refused", "wire/trailing-bytes")

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge each response with error 35, and any other to a version that is known to be unsupported."""
        body = response.body
        if asked is not None and asked.request.uses_header_v3:
            return
        if isinstance(body, Advertisement) and body.body_version == NO_LAYOUT:
            if conversation.is_certain(response):
                yield self._violates("error 35 in no layout that it has")
            else:
                yield undecided(Reason.UNPAIRED)
        elif isinstance(body, Advertisement) and body.refuses_version:
            proper = body.body_version == 0 and response.oddity is None
            yield conforms() if proper else self._violates(f"error 35 in {_layout(body)}")
        elif body is None and response.cut:
            # The error code may be 35, and the bytes behind it in version 0.
            if not _is_advertised(response, conversation):
                yield undecided(why_unread(response))
        elif _is_advertised(response, conversation) is False:
            yield self._violates("something else")
        elif body is None and not response.known:
            yield undecided(why_unread(response))

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge as undecided if it is not known whether the broker supports the version."""
        if not asked.advertised:
            yield undecided(why_unanswered(conversation))

    def _violates(self, observed: str) -> Judgement:
        return violates(
            expected="error 35 in response header 0 and body version 0",
            observed=observed,
            context={"observed": observed},
        )


def _layout(body: Advertisement) -> str:
    if body.body_version == OTHER_HEADER:
        return "response header 1"
    left_over = " with bytes left over" if body.body_version == 0 else ""
    return f"body version {body.body_version}{left_over}"


def _is_advertised(response: Observation, conversation: Conversation) -> bool | None:
    """Whether the broker advertised the version before this response, or does so by it; None if unknown."""
    before, now = conversation.superseded or conversation.advertised, response.body
    offered = own_range(now) if isinstance(now, Advertisement) and now.error_code == NO_ERROR else None
    if offered is not None and offered[0] <= response.api_version <= offered[1]:
        return True
    if before is None or before.sequence == response.first_sequence or API_VERSIONS not in before.ranges:
        return None
    lowest, highest = before.ranges[API_VERSIONS]
    return lowest <= response.api_version <= highest if lowest <= highest else None
