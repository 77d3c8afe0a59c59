"""Base classes of the rules about ApiVersions, by what they wait for before they judge.

A claim is judged once it is known that the broker understood it, a response together with its
request, and a refusal by whether the client leaves the connection.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from decoders.protocol import API_VERSIONS, NAMES_SOFTWARE_FROM, NO_ERROR, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason, why_unanswered, why_unread
from expectations.rules.base.response_rule import InformedOffences
from expectations.rules.base.rule import Judgement, Judgements, NoState, Rule, conforms, undecided, violates


class WaitingClaimRule(Rule):
    """A rule on the claims of ApiVersions requests, which wait for a response that may never be seen."""

    apis = frozenset({API_VERSIONS})

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the claim that is given up because too many wait."""
        return self._judge_given_up(conversation)

    def on_loss(self, loss: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the claims whose responses may be among the lost bytes."""
        return self._judge_given_up(conversation)

    def close(self, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the claims that got no response."""
        return self._judge_given_up(conversation)

    @abstractmethod
    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge a claim whose response will not be seen."""

    def _judge_given_up(self, conversation: Conversation) -> Judgements:
        for asked in conversation.negotiation.given_up:
            yield from self.judge_without_response(asked, conversation)


class ClaimRule(WaitingClaimRule):
    """A rule about what an ApiVersions request claims, from version `first_version` on.

    A claim is judged if the broker responded in the version of the request, or had advertised that
    version before. It is undecided otherwise: a broker that refuses the version has not read the body.
    """

    first_version: ClassVar[int] = NAMES_SOFTWARE_FROM

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge a claim that cannot be read, and the claim that is given up because too many wait."""
        yield from super().on_request(request, conversation, state)
        if request.api_key == API_VERSIONS and self._is_unreadable(request):
            yield undecided(why_unread(request), request.count)

    def on_response(self, response: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the claim that a response answers."""
        asked, body = conversation.negotiation.answered, response.body
        if asked is None:
            return
        if not isinstance(body, Advertisement):
            yield from self._judge(asked, why_unread(response))
        elif body.error_code != UNSUPPORTED_VERSION:
            in_its_version = body.body_version == asked.request.api_version
            yield from self._judge(asked, None if in_its_version else Reason.NOT_SHOWN)

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge a claim in a version that was advertised; the broker may not have understood others."""
        return self._judge(asked, why_unanswered(conversation))

    @abstractmethod
    def judge_claim(self, asked: Asked) -> Judgement:
        """Judge a claim that the broker understood."""

    def _is_unreadable(self, request: Observation) -> bool:
        return request.known and request.api_version >= self.first_version and request.body is None

    def _judge(self, asked: Asked, doubt: Reason | None) -> Judgements:
        """Judge a claim. A `doubt` whether the broker understood it does not count if it was advertised."""
        if asked.request.api_version < self.first_version:
            return
        if doubt is None or asked.advertised:
            yield self.judge_claim(asked)
        else:
            yield undecided(doubt)


class NegotiationResponseRule(Rule):
    """A rule about the broker's response to ApiVersions."""

    apis = frozenset({API_VERSIONS})

    def on_response(self, response: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each response that is matched to its request."""
        if response.api_key != API_VERSIONS or not response.is_matched:
            return ()
        return self.judge_response(response, conversation.negotiation.answered, conversation)

    @abstractmethod
    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge a response. `asked` is its request, None if it was not read or makes no claim."""


class ClaimResponseRule(NegotiationResponseRule, WaitingClaimRule):
    """A rule about how the broker responds to a claim, which may be known without the response."""


class WrongClaimAcceptedRule(ClaimResponseRule):
    """A rule that a broker refuses a wrong claim with INVALID_REQUEST.

    It conforms with any error but 35, and by closing the connection. If it responds with error 35, or in
    another version than that of the request, it did not read the claim, and nothing is judged.
    """

    @abstractmethod
    def is_wrong(self, claim: SoftwareClaim) -> bool:
        """Whether a broker must refuse a claim that it understands."""

    def context(self, claim: SoftwareClaim) -> dict[str, str]:
        """Return the parts of the message that vary with the claim."""
        return {}

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge the response to a wrong claim."""
        if asked is None or not self.is_wrong(asked.claim):
            return
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR and body.body_version == asked.request.api_version:
            yield violates(
                expected="error 42, INVALID_REQUEST",
                observed="error 0",
                context=self.context(asked.claim),
            )
        elif body.error_code not in (NO_ERROR, UNSUPPORTED_VERSION):
            yield conforms()

    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Judgements:
        """Judge closing the connection as a refusal; otherwise the response was not seen."""
        if self.is_wrong(asked.claim):
            is_refused = conversation.was_refused_by_closing
            yield conforms() if is_refused else undecided(why_unanswered(conversation))


class AdvertisementRule(NegotiationResponseRule):
    """A rule about the ranges that a broker advertises. A response that could not be read is undecided."""

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Judge each response without error."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided(why_unread(response))
        elif body.error_code == NO_ERROR:
            judgement = self.judge_advertisement(body)
            if judgement is not None:
                yield judgement

    @abstractmethod
    def judge_advertisement(self, advertisement: Advertisement) -> Judgement | None:
        """Judge an advertisement. None if it says nothing that the rule is about."""


class RefusedState(InformedOffences, omit_defaults=True):
    """Whether a request was sent, and whether frames were lost, after the refusal."""

    used: bool = False
    lost: bool = False


class RefusedConnectionRule(Rule):
    """A rule that a client leaves a connection on which ApiVersions was refused with `error`.

    A request offends only if the client had read the refusal when it sent the request. A close of the broker
    upon the request does not show this: the broker may close because of what it refused before. Nor does it
    where several clients share the connection.
    """

    error: ClassVar[int]
    State = RefusedState

    def on_request(self, request: Observation, conversation: Conversation, state: RefusedState) -> Judgements:
        """Judge each request after the refusal."""
        if self.error not in conversation.negotiation.errors:
            return
        state.used = True
        if conversation.shares_clients:
            yield undecided(Reason.AMBIGUOUS_PROCESS, request.count)
            return
        offence = violates(
            request.count,
            expected="the client closes the connection",
            observed="another request on it",
            context={"error": str(self.error)},
        )
        early, proven = state.count(request, offence)
        if early:
            yield undecided(Reason.UNDER_WAY, early)
        if proven is not None:
            yield proven

    def on_loss(self, loss: Observation, conversation: Conversation, state: RefusedState) -> Judgements:
        """Remember that requests after the refusal may have been lost."""
        state.lost = state.lost or self.error in conversation.negotiation.errors
        return ()

    def close(self, conversation: Conversation, state: RefusedState) -> Judgements:
        """Judge a client that sent nothing more: it conforms if the rest of the connection was seen."""
        if self.error in conversation.negotiation.errors and not state.used:
            if state.lost:
                yield undecided(Reason.LOST_BYTES)
            else:
                yield conforms() if conversation.ended else undecided(Reason.NOT_ENDED)
