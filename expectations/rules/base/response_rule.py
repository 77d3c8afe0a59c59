"""Rules that judge a request by its response, which may come much later or not at all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import Judgement, Rule, undecided

AWAITED_LIMIT = 64
"""How many requests of one rule and connection may wait; one more makes the oldest undecided."""


class Awaited(msgspec.Struct, omit_defaults=True):
    """The requests that wait for their response, by sequence; folded ones by their first sequence."""

    requests: dict[int, Observation] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the verdict on a response depends on its request."""
        return bool(self.requests)

    def add(self, request: Observation) -> Iterator[Judgement]:
        """Let a request wait. Undecided is the one dropped for it, and one that expects no response."""
        if not request.expects_response:
            yield undecided(request.count)
            return
        if len(self.requests) >= AWAITED_LIMIT:
            yield undecided(self.requests.pop(next(iter(self.requests))).count)
        self.requests[request.first_sequence] = request

    def take(self, response: Observation) -> Observation | None:
        """Return the request of a response, and subtract the response's count from what waits of it."""
        request = self.requests.pop(response.paired_sequence, None)
        if request is not None and request.count > response.count:
            left = msgspec.structs.replace(request.occurrence, count=request.count - response.count)
            self.requests[request.first_sequence] = Observation(request.statement, left)
        return request

    def give_up(self) -> Iterator[Judgement]:
        """Drop all requests that wait: their responses will not be recognised. They are undecided."""
        if self.requests:
            yield undecided(sum(request.count for request in self.requests.values()))
            self.requests.clear()


class ResponseRule(Rule):
    """A rule on requests whose verdict depends on the response.

    A request is undecided if it has no response, or if a gap may have hidden the response.
    """

    State = Awaited

    def judge(
        self, observation: Observation, conversation: Conversation, state: Awaited
    ) -> Iterator[Judgement]:
        """Let requests wait, and judge each when its response comes."""
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE):
            yield from state.give_up()
        elif observation.kind is Kind.REQUEST and self.awaits(observation, conversation):
            yield from state.add(observation)
        elif observation.kind is Kind.RESPONSE and observation.is_matched:
            request = state.take(observation)
            if request is not None:
                yield from self.judge_response(request, observation, conversation)

    def close(self, conversation: Conversation, state: Awaited) -> Iterator[Judgement]:
        """Give up: no more responses will come."""
        yield from state.give_up()

    @abstractmethod
    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the response to a request is to be judged."""

    @abstractmethod
    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Iterator[Judgement]:
        """Judge a response, or `response.count` equal ones, together with its request."""
