"""kip1313/header-v3-not-offered."""

from __future__ import annotations

import msgspec

from decoders.protocol import UNSUPPORTED_VERSION
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Advertised
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import SequenceNumber
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import (
    Judgement,
    Judgements,
    Level,
    Role,
    Rule,
    conforms,
    undecided,
    violates,
)

NAMED_LIMIT = 8
"""APIs that a finding names."""


class JudgedAdvertisement(msgspec.Struct, omit_defaults=True):
    """The sequence of the advertisement that was judged last."""

    sequence: SequenceNumber = 0


class HeaderV3NotOffered(Rule):
    """Checks that a broker that reads request header v3 offers it for every API.

    ## Why it matters
    A client that began with an instance ID must give it in every request. Where the broker offers an API on
    older headers only, the client cannot: it has to break KIP-1313 or do without the API, and a broker that
    enforces the ID refuses requests for which it left no choice.

    ## Example
    An ApiVersions response that lists `Metadata 0 to 14`, whose version 14 is on header v3, and
    `FindCoordinator 0 to 6`, whose version 7 would be.

    ## What to do
    Give each API the version that KIP-1313 adds, and advertise it. A proxy that adds the KIP to a broker has
    to do so for every API that it lets through.

    ## What it does not cover
    A broker that offers header v3 for no API, and SaslHandshake, which keeps its header. An API whose latest
    version is unstable: brokers do not advertise such a version, nor what comes after it. Version numbers
    that only KIP-1313 gives prove nothing by themselves, because a later release may use them for something
    else: the rule waits until the broker responds to a request on header v3 of the same connection. If it
    never does, a connection that uses header v3 is undecided.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "Every API but SaslHandshake gets a version that uses request header v3."
    needs = "a broker that lists a version on header v3, and responds to a request on it"
    message = "header v3 is offered, but not for {apis}"
    level = Level.IMPROVEMENT
    role = Role.BROKER
    needs_header_v3 = True
    State = JudgedAdvertisement

    def on_response(
        self, response: Observation, conversation: Conversation, state: JudgedAdvertisement
    ) -> Judgements:
        """Judge each advertisement once, when the broker has shown that it reads header v3."""
        advertised = _unjudged(conversation, state)
        if advertised is not None and _is_proof(response, advertised):
            state.sequence = advertised.sequence
            withheld = advertised.header_offer.withheld
            yield _violates(withheld) if withheld else conforms()

    def close(self, conversation: Conversation, state: JudgedAdvertisement) -> Judgements:
        """Judge an advertisement as undecided if the broker never showed that it reads header v3."""
        if conversation.uses_header_v3 and _unjudged(conversation, state) is not None:
            yield undecided(Reason.NOT_SHOWN)


def _unjudged(conversation: Conversation, state: JudgedAdvertisement) -> Advertised | None:
    """Return the advertisement in force if it offers header v3 and was not judged."""
    advertised = conversation.advertised
    if advertised is None or advertised.sequence == state.sequence or not advertised.header_offer.offered:
        return None
    return advertised


def _is_proof(response: Observation, advertised: Advertised) -> bool:
    """Whether this is the response to a version on header v3, and no refusal of that version."""
    if not response.is_matched or not response.known:
        return False
    if response.errors is None or UNSUPPORTED_VERSION in response.errors:
        return False
    first = dict(advertised.header_offer.offered).get(response.api_key)
    return first is not None and response.api_version >= first


def _violates(withheld: tuple[int, ...]) -> Judgement:
    named = ", ".join(f"API {key}" for key in withheld[:NAMED_LIMIT])
    more = len(withheld) - NAMED_LIMIT
    apis = f"{named} and {more} more" if more > 0 else named
    return violates(expected="header v3 for every API", observed=f"none for {apis}", context={"apis": apis})
