"""kip35/apiversions-v0-dropped."""

from __future__ import annotations

from expectations.conversation.bodies import Advertisement
from expectations.conversation.negotiation import own_range
from expectations.rules.base.negotiation_rule import AdvertisementRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, violates


class ApiversionsV0Dropped(AdvertisementRule):
    """Checks that a broker goes on supporting version 0 of ApiVersions.

    ## Why it matters
    Version 0 is what a client falls back to when it knows nothing of the broker. Without it an older
    client can no longer ask which versions there are.

    ## Example
    An ApiVersions response that lists `ApiVersions 1 to 4`, or does not list ApiVersions

    ## What to do
    Keep every version of ApiVersions, and list them.

    ## What it does not cover
    Whether a request of version 0 then gets a response. A response that could not be read is undecided.
    """

    section = "Proposed Changes"
    requirement = "Versions of ApiVersions are never deprecated: clients rely on it to ask for all others."
    needs = "a broker's list of versions"
    message = "the broker advertises {observed}"
    level = Level.IMPROVEMENT
    role = Role.BROKER
    implies = ("kip511/unsupported-answer-not-v0",)

    def judge_advertisement(self, advertisement: Advertisement) -> Judgement:
        """Judge what an advertisement says of ApiVersions itself."""
        own = own_range(advertisement)
        if own is not None and own[0] <= 0:
            return conforms()
        observed = "no ApiVersions" if own is None else f"ApiVersions from version {own[0]} on"
        return violates(
            expected="ApiVersions from version 0 on",
            observed=observed,
            context={"observed": observed},
        )
