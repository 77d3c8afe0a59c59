"""Base classes of the rules about ApiVersions, by what they wait for before they judge.

A claim is judged once it is known that the broker understood it, a response together with its
request, and a refusal by whether the client leaves the connection.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, NO_ERROR, UNSUPPORTED_VERSION
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.after_response_rule import InformedOffences
from expectations.rules.base.rule import (
    AFTER_OPENING,
    LOSSES,
    REQUESTS,
    RESPONSES,
    Judgement,
    NoState,
    Rule,
    Verdict,
    conforms,
    undecided,
)

FIRST_VERSION_WITH_SOFTWARE = 3
"""The lowest version of ApiVersions that carries the client software (KIP-511)."""


class ClaimRule(Rule):
    """A rule about what an ApiVersions request claims, from version `first_version` on.

    A claim is judged if the broker responded in the version of the request, or had advertised that
    version before. It is undecided otherwise: a broker that refuses the version has not read the body.
    """

    first_version: ClassVar[int] = FIRST_VERSION_WITH_SOFTWARE
    apis = frozenset({API_VERSIONS})
    only_given_up = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each claim once it is known whether the broker understood it."""
        negotiation = conversation.negotiation
        for asked in negotiation.given_up:
            yield from self._judge(asked, understood=asked.advertised)
        if observation.api_key != API_VERSIONS:
            return
        if observation.kind is Kind.REQUEST:
            if self._is_unreadable(observation):
                yield undecided(observation.count)
        elif negotiation.answered is not None:
            yield from self._judge_with_response(negotiation.answered, observation)

    @abstractmethod
    def judge_claim(self, asked: Asked) -> Judgement:
        """Judge a claim that the broker understood."""

    def _is_unreadable(self, request: Observation) -> bool:
        return request.known and request.api_version >= self.first_version and request.body is None

    def _judge_with_response(self, asked: Asked, response: Observation) -> Iterator[Judgement]:
        body = response.body
        if not isinstance(body, Advertisement):
            yield from self._judge(asked, understood=asked.advertised)
        elif body.error_code != UNSUPPORTED_VERSION:
            in_its_version = body.body_version == asked.request.api_version
            yield from self._judge(asked, understood=in_its_version or asked.advertised)

    def _judge(self, asked: Asked, *, understood: bool) -> Iterator[Judgement]:
        if asked.request.api_version >= self.first_version:
            yield self.judge_claim(asked) if understood else undecided()


class NegotiationResponseRule(Rule):
    """A rule about the broker's response to ApiVersions."""

    kinds = RESPONSES
    apis = frozenset({API_VERSIONS})

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each response that is matched to its request."""
        if observation.api_key == API_VERSIONS and observation.is_matched:
            yield from self.judge_response(observation, conversation.negotiation.answered, conversation)

    @abstractmethod
    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge a response. `asked` is its request, None if it was not read or makes no claim."""


class ClaimResponseRule(NegotiationResponseRule):
    """A rule about how the broker responds to a claim, which may be known without the response."""

    kinds = AFTER_OPENING
    only_given_up = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each claim whose response will not be seen, and each matched response."""
        for asked in conversation.negotiation.given_up:
            yield from self.judge_without_response(asked, conversation)
        yield from super().judge(observation, conversation, state)

    @abstractmethod
    def judge_without_response(self, asked: Asked, conversation: Conversation) -> Iterator[Judgement]:
        """Judge a claim whose response will not be seen."""


class AdvertisementRule(NegotiationResponseRule):
    """A rule about the ranges that a broker advertises. A response that could not be read is undecided."""

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge each response without error."""
        body = response.body
        if not isinstance(body, Advertisement):
            yield undecided()
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
    upon the request does not show this: the broker may close because of what it refused before.
    """

    error: ClassVar[int]
    kinds = REQUESTS | LOSSES
    after_error = True
    State = RefusedState

    def judge(
        self, observation: Observation, conversation: Conversation, state: RefusedState
    ) -> Iterator[Judgement]:
        """Judge each request after the refusal."""
        if self.error not in conversation.negotiation.errors:
            return
        if observation.kind in LOSSES:
            state.lost = True
        elif observation.kind is Kind.REQUEST:
            state.used = True
            early, proven = state.count(observation, self._violates(observation))
            if early:
                yield undecided(early)
            if proven is not None:
                yield proven

    def close(self, conversation: Conversation, state: RefusedState) -> Iterator[Judgement]:
        """A client that sent nothing more conforms if the rest of the connection was seen."""
        if self.error in conversation.negotiation.errors and not state.used:
            yield conforms() if conversation.ended and not state.lost else undecided()

    def _violates(self, request: Observation) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            request.count,
            expected="the client closes the connection",
            observed="another request on it",
            context={"error": str(self.error)},
        )
