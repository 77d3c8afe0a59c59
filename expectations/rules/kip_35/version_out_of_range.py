"""kip35/version-out-of-range."""

from __future__ import annotations

from expectations.conversation.negotiation import Advertised
from expectations.conversation.observation import Observation, lacks_version
from expectations.rules.base.reason import Reason
from expectations.rules.base.response_rule import AdvertisedRangesRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, undecided, violates


class VersionOutOfRange(AdvertisedRangesRule):
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
    ApiVersions itself, whose fallback KIP-511 describes. As long as no advertisement is known, a request
    conforms once the broker has responded to its version on the connection; it is undecided if none does. So
    is a request that was sent before the client can have read the advertisement, or within a second of it,
    unless the client does not pipeline and the broker refuses the request, or it is the client's third of
    that kind. A request that was cut before its version is undecided, too.

    After lost bytes that may have held another advertisement, or a response to ApiVersions that could not be
    read, no advertisement is known until the next one. An API that is not advertised at all is judged by
    kip35/api-not-advertised. One of whose versions the list contradicts itself is undecided: see
    kip35/range-inverted.
    """

    section = "Proposed Changes"
    requirement = (
        "A client uses, for each API, a version between the lowest and highest that the broker supports."
    )
    needs = "a request after a list of versions was read"
    message = "{api} v{version} is outside the advertised range {lowest} to {highest}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = ("kip35/version-refused",)

    def judge_by(self, advertised: Advertised, request: Observation) -> Judgement | None:
        """Compare a request's version with the ranges in force."""
        if lacks_version(request):
            return undecided(Reason.CUT, request.count)
        if request.api_key not in advertised.ranges:
            return None
        lowest, highest = advertised.ranges[request.api_key]
        if lowest > highest:
            return undecided(Reason.NOT_SHOWN, request.count)
        if lowest <= request.api_version <= highest:
            return conforms(request.count)
        return violates(
            request.count,
            expected=f"version {lowest} to {highest}",
            observed=f"version {request.api_version}",
            context={"lowest": str(lowest), "highest": str(highest)},
        )
