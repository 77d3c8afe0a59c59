"""kip1313/header-v3-before-negotiation."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.response_rule import Awaited, ResponseRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided


class HeaderV3BeforeNegotiation(ResponseRule):
    """Checks that ApiVersions on header v3 reaches only brokers that can read it.

    ## Why it matters
    Released brokers read the header of an unknown ApiVersions version as header v2. They take the
    first bytes of the instance ID for tagged fields, fail in all but one of two hundred cases, and
    close the connection, so that the client never learns which versions it may use.

    ## Example
    `ApiVersions v6, header v3`, upon which a Kafka 4.4 broker closes the connection.

    ## What to do
    Begin with an ApiVersions version on header v2, or fall back to one when the connection closes
    without a response.

    ## What it does not cover
    A broker that responds properly, with its versions or with error 35 in the layout of version 0.
    Versions that the broker advertised before on the connection. If anything else waits for
    a response when the broker closes, or the client closes first, it is undecided. A close for another
    reason: a proxy that reads header v3, but whose broker is away, closes upon the first request, too.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = (
        "Every request but SaslHandshake gets a version on header v3, yet an ApiVersions request must "
        "be readable by brokers that do not know it."
    )
    message = "{api} v{version} on header v3 {outcome}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    apis = frozenset({API_VERSIONS})

    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the client cannot know that the broker reads header v3."""
        if request.api_key != API_VERSIONS or not request.uses_header_v3:
            return False
        ranges = conversation.advertised.ranges if conversation.advertised else {}
        lowest, highest = ranges.get(API_VERSIONS, (0, -1))
        return not lowest <= request.api_version <= highest

    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Distinguish a proper response from one that the client cannot use."""
        body = response.body
        if isinstance(body, Advertisement):
            is_refusal = body.error_code == UNSUPPORTED_VERSION
            usable = not is_refusal or body.body_version == 0
            yield conforms() if usable else _violates(request, "got a refusal that it cannot read")
        elif response.failure is not None:
            yield _violates(request, "got a response that cannot be decoded")
        else:
            yield undecided()

    def close(self, conversation: Conversation, state: Awaited) -> Iterator[Judgement]:
        """Accuse if only this request was in flight when the broker closed: it could not read the request."""
        for request in state.requests.values():
            if conversation.closed_upon == (request.api_key, request.api_version):
                yield _violates(request, "made the broker close the connection")
                state.requests.clear()
                return
        yield from state.give_up()


def _violates(request: Observation, outcome: str) -> Judgement:
    return Judgement(
        Verdict.VIOLATES,
        expected="a version on header v2, until the broker has advertised another",
        observed=outcome,
        context={"outcome": outcome},
        subject=request,
    )
