"""Base classes of the rules that a response decides: on the request that it answers, or on later ones.

A `ResponseRule` judges a request by its response, which may come much later or not at all.

An `AfterResponseRule` judges requests that a client must not send once it has read a response. A request that
was sent a second after the response is settled: the client has read it. A request that was sent sooner is
informed if the client's host had the response and the client does not pipeline. That is not proof, since TCP
may have held the request back until the response arrived. Two things make it proof: that the request is
refused, and that it is at least the third offence, because nothing is held back for so long.

    an offence                 verdict
    settled                    violates
    informed, the third or     violates
    a later one
    informed, an earlier one   held, until it
      is refused with error 35     violates
      is in flight alone when      violates
      the broker closes first
      gets another response,       is undecided
      or bytes are lost
    any other                  undecided: it may have been under way when the response came
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

import msgspec

from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Advertised
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import Count, SequenceNumber
from expectations.conversation.progress import ApiVersion, request_version
from expectations.rules.base.reason import Reason, why_unanswered, why_untold
from expectations.rules.base.rule import Judgement, Judgements, Rule, Verdict, conforms, undecided

AWAITED_LIMIT = 64
"""Requests of one rule and connection that may wait; with one more, the oldest is undecided."""


class Awaited(msgspec.Struct, omit_defaults=True):
    """The requests that wait for their response, by sequence; folded ones by their first sequence."""

    requests: dict[SequenceNumber, Observation] = {}

    def add(self, request: Observation) -> Judgements:
        """Let a request wait.

        It is undecided if it expects no response; so is an older one that is dropped to make room.
        """
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

    def give_up(self, conversation: Conversation) -> Judgements:
        """Drop all requests that wait: their responses will not be recognised. They are undecided."""
        if self.requests:
            count = sum(request.count for request in self.requests.values())
            yield undecided(why_unanswered(conversation), count)
            self.requests.clear()


class ResponseRule(Rule):
    """A rule on requests whose verdict depends on the response.

    A request is undecided if it has no response, or if a gap may have hidden the response.
    """

    State = Awaited

    def on_request(self, request: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Let a request wait for its response."""
        return state.add(request) if self.awaits(request, conversation) else ()

    def on_response(self, response: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Judge the request that a response belongs to, if it waits."""
        request = state.take(response) if response.is_matched else None
        return () if request is None else self.judge_response(request, response, conversation)

    def on_loss(self, loss: Observation, conversation: Conversation, state: Awaited) -> Judgements:
        """Give up: the responses may be among the lost bytes."""
        return state.give_up(conversation)

    def close(self, conversation: Conversation, state: Awaited) -> Judgements:
        """Give up: no more responses will come."""
        return state.give_up(conversation)

    @abstractmethod
    def awaits(self, request: Observation, conversation: Conversation) -> bool:
        """Whether the response to a request is to be judged."""

    @abstractmethod
    def judge_response(
        self, request: Observation, response: Observation, conversation: Conversation
    ) -> Judgements:
        """Judge a response, or `response.count` equal ones, together with its request."""


ENOUGH = 3
"""The informed offence from which on the client has surely read the response."""


class InformedOffences(msgspec.Struct, omit_defaults=True):
    """The informed offences of one rule on one connection: how many there were, and the first of them."""

    informed: Count = 0
    first: Judgement | None = None

    def count(self, request: Observation, offence: Judgement) -> tuple[int, Judgement | None]:
        """Count an offence, or equal ones that were folded.

        Returns how many of them the client may have committed before it read the response, and the judgement
        on the others. A repetition is evidenced by the first informed offence, however the others fold.
        """
        if request.settled:
            return 0, offence
        if not request.informed:
            return request.count, None
        self.first = self.first or dataclasses.replace(offence, subject=request)
        early = min(request.count, max(0, ENOUGH - 1 - self.informed))
        self.informed += request.count
        proven = request.count - early
        return early, _repeated(self.first, request, proven) if proven else None


def _repeated(first: Judgement, latest: Observation, count: int) -> Judgement:
    """Return the judgement on `count` offences that end with `latest`."""
    assert first.subject is not None
    until = latest.occurrence
    occurrence = msgspec.structs.replace(
        first.subject.occurrence, last_sequence=until.last_sequence, last_captured_at=until.last_captured_at
    )
    return dataclasses.replace(first, count=count, subject=Observation(first.subject.statement, occurrence))


class SuspectedOffences(InformedOffences, omit_defaults=True):
    """The informed offences of one connection; `held` are those that may still be refused, by sequence."""

    held: dict[SequenceNumber, Judgement] = {}

    def add(self, request: Observation, offence: Judgement) -> Judgements:
        """Judge an offence, or hold it until it is known whether the broker refuses the request."""
        early, proven = self.count(request, offence)
        if proven is not None:
            yield proven
        if early and request.informed and request.expects_response:
            self.held[request.first_sequence] = dataclasses.replace(offence, count=early, subject=request)
        elif early:
            yield undecided(Reason.UNDER_WAY, early)

    def judge_response(self, response: Observation) -> Judgements:
        """Judge the offence that a response answers, if it is held."""
        offence = self.held.pop(response.paired_sequence, None) if response.is_matched else None
        if offence is None:
            return
        answered = min(offence.count, response.count)
        if answered < offence.count:
            left = dataclasses.replace(offence, count=offence.count - answered)
            self.held[response.paired_sequence] = left
        if UNSUPPORTED_VERSION in (response.errors or ()):
            yield self._refused(offence, answered)
        else:
            yield undecided(Reason.UNDER_WAY, answered)

    def judge_closing(self, conversation: Conversation) -> Judgements:
        """Judge the offences that are still held when the connection closes."""
        for offence in self.held.values():
            assert offence.subject is not None
            if conversation.closed_upon == request_version(offence.subject.statement):
                yield self._refused(offence, offence.count)
            else:
                yield undecided(Reason.UNDER_WAY, offence.count)
        self.held.clear()

    def _refused(self, offence: Judgement, count: int) -> Judgement:
        """Return the judgement on `count` of a held offence, with which equal ones may have been folded."""
        assert offence.subject is not None and self.first is not None and self.first.subject is not None
        if offence.subject.statement == self.first.subject.statement:
            return _repeated(self.first, offence.subject, count)
        return dataclasses.replace(offence, count=count)

    def give_up(self) -> Judgements:
        """Drop all offences that are held: the responses will not be recognised."""
        if self.held:
            yield undecided(Reason.LOST_BYTES, sum(offence.count for offence in self.held.values()))
            self.held.clear()


class AfterResponseRule(Rule):
    """A rule that a request breaks if its client had read a response before."""

    State = SuspectedOffences

    def on_request(
        self, request: Observation, conversation: Conversation, state: SuspectedOffences
    ) -> Judgements:
        """Judge each request; an offence may be held until it is known whether it is refused."""
        judgement = self.judge_request(request, conversation)
        if judgement is None:
            return
        if judgement.verdict is Verdict.VIOLATES:
            yield from state.add(request, judgement)
        else:
            yield judgement

    def on_response(
        self, response: Observation, conversation: Conversation, state: SuspectedOffences
    ) -> Judgements:
        """Judge the offence that a response answers, if it is held."""
        return state.judge_response(response)

    def on_loss(self, loss: Observation, conversation: Conversation, state: SuspectedOffences) -> Judgements:
        """Give up the offences that are held: their responses may be among the lost bytes."""
        return state.give_up()

    def close(self, conversation: Conversation, state: SuspectedOffences) -> Judgements:
        """Judge the offences that are held by whether the broker closed upon them."""
        return state.judge_closing(conversation)

    @abstractmethod
    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Judge a request as if the client had read the response. None if nothing is to be judged."""


UNTOLD_LIMIT = 32
"""API versions of one connection whose requests wait for the broker to serve them; others are undecided."""


class UntoldRequests(SuspectedOffences, omit_defaults=True):
    """The requests that were sent while no ranges were known, by version, until the broker serves one."""

    untold: dict[ApiVersion, Count] = {}

    def add_untold(self, request: Observation, conversation: Conversation) -> Judgements:
        """Judge a request of which nothing is known but what the broker serves on the connection."""
        version = request_version(request.statement)
        if version in conversation.served_unadvertised:
            yield conforms(request.count)
        elif not request.expects_response or request.api_version < 0:
            yield undecided(why_untold(conversation), request.count)
        elif version in self.untold or len(self.untold) < UNTOLD_LIMIT:
            self.untold[version] = self.untold.get(version, 0) + request.count
        else:
            yield undecided(Reason.FORGOTTEN, request.count)

    def judge_untold(self, response: Observation, conversation: Conversation) -> Judgements:
        """Judge what waits for a version. All of it conforms if the broker serves it; no refusal decides."""
        version = response.api_key, response.api_version
        if not response.is_matched or version not in self.untold:
            return
        waiting = self.untold.pop(version)
        is_refused = UNSUPPORTED_VERSION in (response.errors or ())
        if is_refused and waiting > response.count:
            self.untold[version], waiting = waiting - response.count, response.count
        # Where both are equal, the response's count is taken: a learnt transition reads it from each frame.
        count = response.count if waiting == response.count else waiting
        yield undecided(why_untold(conversation), count) if is_refused else conforms(count)


class AdvertisedRangesRule(AfterResponseRule):
    """A rule that holds requests, other than ApiVersions, against the ranges that the broker advertised.

    A request without known ranges conforms once the broker has served its version on the connection.
    """

    State = UntoldRequests

    def on_request(self, request: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge each request by the ranges in force, or let it wait for a response to its version."""
        if request.api_key in (API_VERSIONS, -1):
            return
        if conversation.advertised is None:
            yield from state.add_untold(request, conversation)
        else:
            yield from super().on_request(request, conversation, state)

    def on_response(self, response: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge the offence that a response answers, and what waits for its version."""
        yield from super().on_response(response, conversation, state)
        yield from state.judge_untold(response, conversation)

    def close(self, conversation: Conversation, state: Any) -> Judgements:
        """Judge the offences that are held, and give up what still waits."""
        yield from super().close(conversation, state)
        if state.untold:
            yield undecided(why_untold(conversation), sum(state.untold.values()))

    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Judge a request by the ranges in force."""
        assert conversation.advertised is not None
        return self.judge_by(conversation.advertised, request)

    @abstractmethod
    def judge_by(self, advertised: Advertised, request: Observation) -> Judgement | None:
        """Judge a request by ranges as if the client had read them."""
