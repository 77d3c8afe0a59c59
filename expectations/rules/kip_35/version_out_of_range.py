"""kip35/version-out-of-range."""

from __future__ import annotations

from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.after_response_rule import AfterResponseRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided


class VersionOutOfRange(AfterResponseRule):
    """Checks that a request uses a version which the broker advertised for its API.

    ## Why it matters
    The broker closes the connection without a response. The client sees a broken connection and often
    retries for ever; after an upgrade of the brokers this is how old clients die.

    ## Example
    The ApiVersions response lists `Produce 3 to 13`. Two milliseconds later comes `Produce v2`, and the
    broker closes the connection.

    ## What to do
    Choose the version per connection from the broker's latest ApiVersions response.

    ## What it does not cover
    ApiVersions itself, whose fallback KIP-511 describes. Requests before the first advertisement, or
    sent before the client can have read it: undecided. So is a request sent within a second of it, unless
    the client does not pipeline and the broker refuses the request, or it is the client's third of that kind.
    After lost bytes that may have held another advertisement nothing is decided until the next one. An API
    that is not advertised at all is judged by kip35/api-not-advertised.
    """

    section = "Proposed Changes"
    requirement = (
        "A client uses, for each API, a version between the lowest and highest that the broker supports."
    )
    message = "{api} v{version} is outside the advertised range {lowest} to {highest}"
    level = Level.VIOLATION
    role = Role.CLIENT
    not_apis = frozenset({API_VERSIONS})
    implies = ("kip35/version-refused",)

    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Compare a request's version with the ranges in force."""
        if request.api_key in (API_VERSIONS, -1):
            return None
        if conversation.advertised is None:
            return undecided(request.count)
        advertised = conversation.advertised.ranges.get(request.api_key)
        return None if advertised is None else _compared(request, *advertised)


def _compared(request: Observation, lowest: int, highest: int) -> Judgement:
    if lowest <= request.api_version <= highest:
        return conforms(request.count)
    return Judgement(
        Verdict.VIOLATES,
        request.count,
        expected=f"version {lowest} to {highest}",
        observed=f"version {request.api_version}",
        context={"lowest": str(lowest), "highest": str(highest)},
    )
