"""Rules that judge a request by its response, which may come much later or not at all."""

from __future__ import annotations

from abc import abstractmethod

import msgspec

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import SequenceNumber
from expectations.rules.base.reason import Reason, why_unanswered
from expectations.rules.base.rule import Judgements, Rule, undecided

AWAITED_LIMIT = 64
"""Requests of one rule and connection that may wait; with one more, the oldest is undecided."""


class Awaited(msgspec.Struct, omit_defaults=True):
    """The requests that wait for their response, by sequence; folded ones by their first sequence."""

    requests: dict[SequenceNumber, Observation] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the verdict on a response depends on its request."""
        return bool(self.requests)

    def add(self, request: Observation) -> Judgements:
        """Let a request wait. A request that is dropped for it, or expects no response, is undecided."""
        if not request.expects_response:
            yield undecided(Reason.NO_RESPONSE, request.count)
            return
        if len(self.requests) >= AWAITED_LIMIT:
            yield undecided(Reason.FORGOTTEN, self.requests.pop(next(iter(self.requests))).count)
        self.requests[request.first_sequence] = request

    def take(self, response: Observation) -> Observation | None:
        """Return the request of a response, and subtract the response's count from what waits of it."""
        request = self.requests.pop(response.paired_sequence, None)
        if request is not None and request.count > response.count:
            left = msgspec.structs.replace(request.occurrence, count=request.count - response.count)
            self.requests[request.first_sequence] = Observation(request.statement, left)
        return request

    def give_up(self, reason: Reason) -> Judgements:
        """Drop all requests that wait: their responses will not be recognised. They are undecided."""
        if self.requests:
            yield undecided(reason, sum(request.count for request in self.requests.values()))
            self.requests.clear()


class ResponseRule(Rule):
    """A rule on requests whose verdict depends on the response.

    A request is undecided if it has no response, or if a gap may have hidden the response.
    """

    State = Awaited

    def on_request(self, request: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Let a request wait for its response."""
        if self.awaits(request, conversation):
            yield from state.add(request)

    def on_response(self, response: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Judge the request that a response belongs to, if it waits."""
        request = state.take(response) if response.is_matched else None
        if request is not None:
            yield from self.judge_response(request, response, conversation)

    def on_loss(self, loss: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Give up: the responses may be among the lost bytes."""
        yield from state.give_up(why_unanswered(conversation))

    def close(self, conversation: Conversation, state: Awaited) -> Judgements:
        """Give up: no more responses will come."""
        yield from state.give_up(why_unanswered(conversation))

    @abstractmethod
    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the response to a request is to be judged."""

    @abstractmethod
    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Judge a response, or `response.count` equal ones, together with its request."""
