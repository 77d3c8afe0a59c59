"""kip35/range-inverted."""

from __future__ import annotations

from collections import Counter

from expectations.conversation.bodies import AdvertisedRanges, Advertisement
from expectations.rules.base.negotiation_rule import AdvertisementRule
from expectations.rules.base.rule import Judgement, Level, Role, conforms, violates


class RangeInverted(AdvertisementRule):
    """Checks that an advertisement gives each API one range, whose lowest version is not above its highest.

    ## Why it matters
    A client finds no version to use, or takes whichever of two ranges it happens to read last. Both
    look like a broken client.

    ## Example
    An ApiVersions response that lists `Produce 9 to 3`, or Produce twice

    ## What to do
    Correct the broker's list of supported versions. A proxy that intersects the lists of several
    brokers must leave an API out when nothing remains.

    ## What it does not cover
    Whether the broker supports what it advertises. A response that could not be read is undecided.
    """

    section = "Proposed Changes, ApiVersionResponse"
    requirement = "An ApiVersions response gives each API's lowest and highest supported version, inclusive."
    needs = "a broker's list of versions"
    message = "the advertisement is contradictory: {entries}"
    level = Level.VIOLATION
    role = Role.BROKER

    def judge_advertisement(self, advertisement: Advertisement) -> Judgement:
        """Judge an advertisement as a whole."""
        entries = ", ".join(_contradictions(advertisement.ranges))
        if not entries:
            return conforms()
        expected = "one range for each API, its lowest version not above its highest"
        return violates(expected=expected, observed=entries, context={"entries": entries})


def _contradictions(ranges: AdvertisedRanges) -> list[str]:
    inverted = [f"API {key} from {low} to {high}" for key, low, high in ranges if low > high]
    listed = Counter(key for key, _, _ in ranges)
    return inverted + [f"API {key} listed {count} times" for key, count in listed.items() if count > 1]
