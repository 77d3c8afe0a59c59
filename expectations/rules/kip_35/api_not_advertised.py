"""kip35/api-not-advertised."""

from __future__ import annotations

from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.after_response_rule import AfterResponseRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided


class ApiNotAdvertised(AfterResponseRule):
    """Checks that a client uses only APIs that the broker advertised.

    ## Why it matters
    The broker closes the connection without a response, together with everything else that was under
    way on it.

    ## Example
    The ApiVersions response does not list PushTelemetry, and then comes `PushTelemetry v0`.

    ## What to do
    Look the API up in the broker's latest ApiVersions response, and do without the feature if it is
    not there.

    ## What it does not cover
    ApiVersions itself. Requests before the first advertisement, or sent before the client can have
    read it: undecided. So is a request sent within a second of it, unless the client does not pipeline and
    the broker refuses the request, or it is the client's third of that kind. The version is judged by
    kip35/version-out-of-range.
    """

    section = "Proposed Changes"
    requirement = "A client learns from ApiVersions which APIs a broker supports, and uses no others."
    message = "{api} v{version} is used although the broker does not advertise that API"
    level = Level.VIOLATION
    role = Role.CLIENT
    not_apis = frozenset({API_VERSIONS})
    implies = ("kip35/version-refused",)

    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Look a request's API up in the ranges in force."""
        if request.api_key in (API_VERSIONS, -1):
            return None
        if conversation.advertised is None:
            return undecided(request.count)
        if request.api_key in conversation.advertised.ranges:
            return conforms(request.count)
        return Judgement(
            Verdict.VIOLATES,
            request.count,
            expected="an API that the broker advertises",
            observed=f"API key {request.api_key}",
        )
