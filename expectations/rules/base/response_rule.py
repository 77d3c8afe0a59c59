"""Rules that judge a request by its answer, which may come much later or not at all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import Judgement, Rule, undecided

AWAITED_LIMIT = 64
"""Requests of one rule and connection that wait at once; the oldest is given up for another."""


class Awaited(msgspec.Struct, omit_defaults=True):
    """The requests that wait for their answer, by sequence; folded ones under their first."""

    requests: dict[int, Observation] = {}

    def add(self, request: Observation) -> Iterator[Judgement]:
        """Let a request wait. What is given up for it, and what is never answered, is undecided."""
        if not request.owes_answer:
            yield undecided(request.count)
            return
        if len(self.requests) >= AWAITED_LIMIT:
            yield undecided(self.requests.pop(next(iter(self.requests))).count)
        self.requests[request.first_sequence] = request

    def take(self, answer: Observation) -> Observation | None:
        """Give the request that an answer belongs to, and let as many wait no longer as were answered."""
        request = self.requests.pop(answer.paired_sequence, None)
        if request is not None and request.count > answer.count:
            left = msgspec.structs.replace(request, count=request.count - answer.count)
            self.requests[request.first_sequence] = left
        return request

    def give_up(self) -> Iterator[Judgement]:
        """Nothing that waits will be known to be answered."""
        if self.requests:
            yield undecided(sum(request.count for request in self.requests.values()))
            self.requests.clear()


class AnswerRule(Rule):
    """A rule on requests whose verdict stands in the answer.

    Requests that were not answered are undecided, and so are those whose answer a gap may have hidden.
    """

    State = Awaited

    def judge(
        self, observation: Observation, conversation: Conversation, state: Awaited
    ) -> Iterator[Judgement]:
        """Let requests wait, and judge each when its answer comes."""
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE):
            yield from state.give_up()
        elif observation.kind is Kind.REQUEST and self.awaits(observation, conversation):
            yield from state.add(observation)
        elif observation.kind is Kind.RESPONSE and observation.is_matched:
            request = state.take(observation)
            if request is not None:
                yield from self.judge_answer(request, observation, conversation)

    def close(self, conversation: Conversation, state: Awaited) -> Iterator[Judgement]:
        """No answer comes any more."""
        yield from state.give_up()

    @abstractmethod
    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the answer to a request is to be judged."""

    @abstractmethod
    def judge_answer(
        self, request: Observation, answer: Observation, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge an answer, which may stand for several equal ones, by the request that it belongs to."""
