"""kip1313/header-v3-before-negotiation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import NOT_LISTED, Claim, IdentityKind
from expectations.identity.known_ranges import ENOUGH_CLOSES, is_negotiation_refused, known_ranges
from expectations.rules.base.reason import why_maybe_supported, why_unread
from expectations.rules.base.response_rule import Awaited, ResponseRule
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Judgements,
    Level,
    Role,
    conforms,
    undecided,
    violates,
)

_CLOSED: Final = "made the broker close the connection"


class HeaderV3BeforeNegotiation(ResponseRule, IdentityRule):
    """Checks that ApiVersions on header v3 reaches only brokers that can read it.

    ## Why it matters
    Released brokers read the header of an unknown ApiVersions version as header v2. They take the
    first bytes of the instance ID for tagged fields, fail in all but one of two hundred cases, and
    close the connection, so that the client never learns which versions it may use.

    ## Example
    The broker at 10.0.0.2:9092 lists `ApiVersions 0 to 5`. On three connections in a row a client begins
    with `ApiVersions v6, header v3`, and the broker closes each of them.

    ## What to do
    Begin with an ApiVersions version on header v2, or fall back to one when the connection closes
    without a response.

    ## What it does not cover
    A broker that responds properly, with its versions or with error 35 in the layout of version 0.
    Versions that the broker advertised before on the connection. A close may have another reason: a proxy
    that reads header v3, but whose broker is away, closes upon the first request, too. So a close conforms
    if the address lists the version, and counts only under the conditions of kip511/unknown-version-closed:
    three connections in a row, at an address that lists other versions, never responded to this one, and
    closes upon nothing that it supports. Otherwise it is undecided, as it is if anything else waits for a
    response when the broker closes, or if the client closes first. A connection that was itself told
    a list without the version needs no other: one close counts.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = (
        "Every request but SaslHandshake gets a version on header v3, yet an ApiVersions request must "
        "be readable by brokers that do not know it."
    )
    needs = "an ApiVersions request on header v3"
    message = "{api} v{version} on header v3 {outcome}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kind = IdentityKind.BROKER
    waits = True
    apis = frozenset({API_VERSIONS})

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the client cannot know that the broker reads header v3."""
        return (
            request.api_key == API_VERSIONS
            and request.uses_header_v3
            and not _is_listed(request, conversation)
        )

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Distinguish a proper response from one that the client cannot use."""
        body = response.body
        if isinstance(body, Advertisement):
            is_refusal = body.error_code == UNSUPPORTED_VERSION
            usable = not is_refusal or body.body_version == 0
            yield conforms() if usable else _violates(request, "got a refusal that it cannot read")
        elif response.failure is not None:
            yield _violates(request, "got a response that cannot be decoded")
        else:
            yield undecided(why_unread(response))

    def close(self, conversation: Conversation, state: Awaited) -> Judgements:
        """Judge the request that the broker closed upon, unless the claims of its address have to."""
        for sequence, request in state.requests.items():
            if conversation.closed_upon == (request.api_key, request.api_version):
                has_advertised = conversation.advertised is not None
                if has_advertised:
                    is_listed = _is_listed(request, conversation)
                    yield conforms() if is_listed else _violates(request, _CLOSED)
                if has_advertised or request.is_clean:
                    del state.requests[sequence]
                break
        yield from state.give_up(conversation)

    def concerns(self, claim: Claim) -> bool:
        """Whether the broker closed upon ApiVersions on header v3 before it advertised any versions."""
        refused = claim.refused
        return (
            refused is not None
            and refused.on_header_v3
            and not refused.by_error
            and refused.advertised is None
        )

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a close by what the broker advertised to others, responded to, and closed upon."""
        known = known_ranges(claim, others)
        if known.include(claim.api_version):
            return conforms()
        if not known.lists_the_api or not is_negotiation_refused(claim, others):
            return undecided(why_maybe_supported(claim, others))
        return _violates(None, f"made the broker close at least {ENOUGH_CLOSES} connections")


def _is_listed(request: Observation, conversation: Conversation) -> bool:
    """Whether the broker advertised the version on the connection."""
    ranges = conversation.advertised.ranges if conversation.advertised else {}
    lowest, highest = ranges.get(API_VERSIONS, NOT_LISTED)
    return lowest <= request.api_version <= highest


def _violates(request: Observation | None, outcome: str) -> Judgement:
    return violates(
        expected="a version on header v2, until the broker has advertised another",
        observed=outcome,
        context={"outcome": outcome},
        subject=request,
    )
