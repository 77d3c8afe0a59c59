"""What the rules about ApiVersions have in common: whom they wait for before they judge.

A claim is judged when it is known that the broker understood it, an answer together with the request
that it answers, and a refusal by whether the client leaves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Advertisement, Observation
from expectations.rules.base.rule import REQUESTS, Judgement, NoState, Rule, Verdict, conforms, undecided

FIRST_VERSION_WITH_SOFTWARE = 3


class ClaimRule(Rule):
    """A rule about what an ApiVersions request says, from `first_version` on.

    Judged is what the broker answered in the version of the request, and what it may have understood
    because it had advertised that version. A broker that refuses the version has not read it.
    """

    first_version: ClassVar[int] = FIRST_VERSION_WITH_SOFTWARE
    apis = frozenset({API_VERSIONS})

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each claim when it is known whether the broker understood it."""
        negotiation = conversation.negotiation
        for asked in negotiation.given_up:
            yield from self._judge(asked, understood=asked.advertised)
        if observation.api_key != API_VERSIONS:
            return
        if observation.kind is Kind.REQUEST:
            if self._is_unreadable(observation):
                yield undecided(observation.count)
        elif negotiation.answered is not None:
            yield from self._judge_answered(negotiation.answered, observation)

    @abstractmethod
    def judge_claim(self, asked: Asked) -> Judgement:
        """Judge a claim that the broker understood."""

    def _is_unreadable(self, request: Observation) -> bool:
        return request.known and request.api_version >= self.first_version and request.body is None

    def _judge_answered(self, asked: Asked, response: Observation) -> Iterator[Judgement]:
        answer = response.body
        if not isinstance(answer, Advertisement):
            yield from self._judge(asked, understood=asked.advertised)
        elif answer.error_code != UNSUPPORTED_VERSION:
            in_its_version = answer.body_version == asked.request.api_version
            yield from self._judge(asked, understood=in_its_version or asked.advertised)

    def _judge(self, asked: Asked, *, understood: bool) -> Iterator[Judgement]:
        if asked.request.api_version >= self.first_version:
            yield self.judge_claim(asked) if understood else undecided()


class AnswerRule(Rule):
    """A rule about the broker's answer to ApiVersions."""

    apis = frozenset({API_VERSIONS})

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each answer that is matched to its request."""
        for asked in conversation.negotiation.given_up:
            yield from self.judge_unanswered(asked, conversation)
        if observation.api_key == API_VERSIONS and observation.is_matched:
            yield from self.judge_answer(observation, conversation.negotiation.answered, conversation)

    @abstractmethod
    def judge_answer(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge an answer; `asked` is its request where that was read and makes claims."""

    def judge_unanswered(self, asked: Asked, conversation: Conversation) -> Iterator[Judgement]:
        """Judge a claim of which it will not be known how it was answered."""
        yield from ()


class UsedState(msgspec.Struct, omit_defaults=True):
    """Whether anything was sent after the refusal."""

    used: bool = False


class RefusedConnectionRule(Rule):
    """A rule that a client leaves a connection whose ApiVersions was refused with `error`.

    A request is held against it only if it was surely sent after the refusal was read.
    """

    error: ClassVar[int]
    hears = REQUESTS
    State = UsedState

    def judge(
        self, observation: Observation, conversation: Conversation, state: UsedState
    ) -> Iterator[Judgement]:
        """Judge each request after the refusal."""
        if observation.kind is not Kind.REQUEST or self.error not in conversation.negotiation.errors:
            return
        state.used = True
        if observation.settled:
            yield self._violates(observation)
        else:
            yield undecided(observation.count)

    def close(self, conversation: Conversation, state: UsedState) -> Iterator[Judgement]:
        """A client that sent nothing more has left, if all of the connection was seen."""
        refused_at = conversation.negotiation.errors.get(self.error)
        if refused_at is None or state.used:
            return
        seen_to_the_end = conversation.ended and conversation.latest_loss < refused_at
        yield conforms() if seen_to_the_end else undecided()

    def _violates(self, request: Observation) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            request.count,
            expected="the client closes the connection",
            observed="another request on it",
            context={"error": str(self.error)},
        )
