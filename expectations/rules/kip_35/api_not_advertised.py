"""kip35/api-not-advertised."""

from __future__ import annotations

from expectations.conversation.negotiation import Advertised
from expectations.conversation.observation import Observation
from expectations.rules.base.response_rule import AdvertisedRangesRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, violates


class ApiNotAdvertised(AdvertisedRangesRule):
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
    ApiVersions itself. An empty list advertises nothing. As long as no advertisement is known, a request
    conforms once the broker has responded to its version on the connection; it is undecided if none does. So
    is a request that was sent before the client can have read the advertisement, or within a second of it,
    unless the client does not pipeline and the broker refuses the request, or it is the client's third of
    that kind. The version is judged by kip35/version-out-of-range.
    """

    section = "Proposed Changes"
    requirement = "A client learns from ApiVersions which APIs a broker supports, and uses no others."
    needs = "a request after a list of versions was read"
    message = "{api} v{version} is used although the broker does not advertise that API"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = ("kip35/version-refused",)

    def judge_by(self, advertised: Advertised, request: Observation) -> Judgement | None:
        """Look a request's API up in the ranges in force."""
        if request.api_key in advertised.ranges:
            return conforms(request.count)
        return violates(
            request.count,
            expected="an API that the broker advertises",
            observed=f"API key {request.api_key}",
        )
