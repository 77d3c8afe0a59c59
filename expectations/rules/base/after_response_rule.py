"""Rules about what a client must not send once it has read a response, and what shows that it has.

A request that was sent a second after the response is settled: the client has read it. A request that was
sent sooner is informed if the client's host had the response and the client does not pipeline. That is not
proof: TCP may have held the request back until the response arrived. Two things make it proof:

- the request is refused: with error 35, or because the broker closes first while nothing else is in flight;
- it is at least the third offence of an informed client: nothing is held back for so long.

Any other request may have been under way when the response came, and is undecided.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import UNSUPPORTED_VERSION
from expectations.conversation.conversation import Conversation
from expectations.conversation.in_flight import request_version
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import FRAMES, LOSSES, Judgement, Rule, Verdict, undecided

ENOUGH = 3
"""Offences of an informed client, by the last of which it has surely read the response."""


class InformedOffences(msgspec.Struct, omit_defaults=True):
    """The informed offences of one rule on one connection: how many there were, and the first of them."""

    informed: int = 0
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
        return early, _repeated(self.first, request, request.count - early)


def _repeated(first: Judgement, latest: Observation, count: int) -> Judgement | None:
    """Return the judgement on `count` offences that end with `latest`, None if there are none."""
    assert first.subject is not None
    if count == 0:
        return None
    until = latest.occurrence
    occurrence = msgspec.structs.replace(
        first.subject.occurrence, last_sequence=until.last_sequence, last_captured_at=until.last_captured_at
    )
    return dataclasses.replace(first, count=count, subject=Observation(first.subject.statement, occurrence))


class SuspectedOffences(InformedOffences, omit_defaults=True):
    """The informed offences of one connection; `held` are those that may still be refused, by sequence."""

    held: dict[int, Judgement] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the verdict on a response depends on its request."""
        return bool(self.held)

    def add(self, request: Observation, offence: Judgement) -> Iterator[Judgement]:
        """Judge an offence, or hold it until it is known whether the broker refuses the request."""
        early, proven = self.count(request, offence)
        if proven is not None:
            yield proven
        if early and request.informed and request.expects_response:
            self.held[request.first_sequence] = dataclasses.replace(offence, count=early, subject=request)
        elif early:
            yield undecided(early)

    def judge_response(self, response: Observation) -> Iterator[Judgement]:
        """Judge the offence that a response answers, if it is held."""
        offence = self.held.pop(response.paired_sequence, None) if response.is_matched else None
        if offence is None:
            return
        answered = min(offence.count, response.count)
        if answered < offence.count:
            left = dataclasses.replace(offence, count=offence.count - answered)
            self.held[response.paired_sequence] = left
        if UNSUPPORTED_VERSION in (response.errors or ()):
            yield dataclasses.replace(offence, count=answered)
        else:
            yield undecided(answered)

    def judge_closing(self, conversation: Conversation) -> Iterator[Judgement]:
        """Judge the offences that are still held when the connection closes."""
        for offence in self.held.values():
            assert offence.subject is not None
            is_refused = conversation.closed_upon == request_version(offence.subject.statement)
            yield offence if is_refused else undecided(offence.count)
        self.held.clear()

    def give_up(self) -> Iterator[Judgement]:
        """Drop all offences that are held: the responses will not be recognised."""
        if self.held:
            yield undecided(sum(offence.count for offence in self.held.values()))
            self.held.clear()


class AfterResponseRule(Rule):
    """A rule that a request breaks if the client had read a response when it sent the request."""

    kinds = FRAMES | LOSSES
    State = SuspectedOffences

    def judge(
        self, observation: Observation, conversation: Conversation, state: SuspectedOffences
    ) -> Iterator[Judgement]:
        """Judge each request, and each offence that is held as soon as it is known whether it is refused."""
        if observation.kind is Kind.REQUEST:
            judgement = self.judge_request(observation, conversation)
            if judgement is None:
                return
            if judgement.verdict is Verdict.VIOLATES:
                yield from state.add(observation, judgement)
            else:
                yield judgement
        elif observation.kind is Kind.RESPONSE:
            yield from state.judge_response(observation)
        elif observation.kind in LOSSES:
            yield from state.give_up()

    def close(self, conversation: Conversation, state: SuspectedOffences) -> Iterator[Judgement]:
        """Judge the offences that are held by whether the broker closed upon them."""
        yield from state.judge_closing(conversation)

    @abstractmethod
    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Judge a request as if the client had read the response. None if nothing is to be judged."""
