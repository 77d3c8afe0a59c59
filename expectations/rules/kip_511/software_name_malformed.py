"""kip511/software-name-malformed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation, is_matched
from expectations.conversation.observation import API_VERSIONS, Advertisement, Observation, SoftwareClaim
from expectations.rule import Judgement, Level, Role, Rule, Verdict, conforms, undecided

SHIPPED_PATTERN = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
TEXT_PATTERN = re.compile(r"[.\-a-zA-Z0-9]+")
FIRST_VERSION_WITH_SOFTWARE = 3
UNSUPPORTED_VERSION = 35
PENDING_LIMIT = 16
"""ApiVersions requests that wait for their answer at once; more are undecided."""


class PendingState(msgspec.Struct, omit_defaults=True):
    """ApiVersions requests, by sequence, that the broker may not have understood yet."""

    requests: dict[int, Observation] = {}


class SoftwareNameMalformed(Rule):
    """Checks that the client software name in ApiVersions is one the broker can take.

    ## Why it matters
    The broker answers INVALID_REQUEST and the client cannot connect; where it would take the name,
    it becomes part of a metric's name.

    ## Example
    `ApiVersions v3, client software name "RP Console"`

    ## What to do
    Use letters, digits, dots and hyphens only, with a letter or digit at both ends.

    ## What it does not cover
    A version of ApiVersions that the broker does not support: it never reads the name. So a request
    is judged once the broker has answered in its version, or when the version was advertised before.
    The KIP's text also allows a dot or hyphen at the ends; released Kafka does not, and the finding
    says when the two readings differ.
    """

    section = "Proposed Changes, Validation"
    requirement = "The client software name matches the pattern that the broker validates it with."
    message = 'the client software name "{name}" is malformed ({readings})'
    level = Level.VIOLATION
    role = Role.CLIENT
    State = PendingState

    def judge(
        self, observation: Observation, conversation: Conversation, state: PendingState
    ) -> Iterator[Judgement]:
        """Judge each claim when it is known that the broker understood it."""
        if observation.kind is Kind.GAP:
            yield from _give_up(state)
        elif observation.api_key != API_VERSIONS:
            return
        elif observation.kind is Kind.REQUEST:
            yield from self._judge_request(observation, conversation, state)
        elif is_matched(observation) and observation.paired_sequence in state.requests:
            request = state.requests.pop(observation.paired_sequence)
            yield from self._judge_answered(request, observation)

    def close(self, conversation: Conversation, state: PendingState) -> Iterator[Judgement]:
        """A claim that was never answered stays undecided."""
        yield from _give_up(state)

    def _judge_request(
        self, request: Observation, conversation: Conversation, state: PendingState
    ) -> Iterator[Judgement]:
        if not request.known or request.api_version < FIRST_VERSION_WITH_SOFTWARE:
            return
        if not isinstance(request.body, SoftwareClaim):
            yield undecided(request.count)
        elif _is_advertised(request, conversation):
            yield self._judge_claim(request)
        elif len(state.requests) < PENDING_LIMIT:
            state.requests[request.first_sequence] = request
        else:
            yield undecided()

    def _judge_answered(self, request: Observation, response: Observation) -> Iterator[Judgement]:
        answer = response.body
        if not isinstance(answer, Advertisement):
            yield undecided()
        elif answer.error_code != UNSUPPORTED_VERSION:
            understood = answer.body_version == request.api_version
            yield self._judge_claim(request) if understood else undecided()

    def _judge_claim(self, request: Observation) -> Judgement:
        claim = request.body
        name = claim.name if isinstance(claim, SoftwareClaim) else ""
        if SHIPPED_PATTERN.fullmatch(name):
            return conforms()
        allowed_by_text = bool(TEXT_PATTERN.fullmatch(name))
        readings = "released Kafka only: the KIP's text allows it" if allowed_by_text else "in both readings"
        return Judgement(
            Verdict.VIOLATES,
            expected=SHIPPED_PATTERN.pattern,
            observed=name,
            context={"name": name, "readings": readings},
            subject=request,
        )


def _is_advertised(request: Observation, conversation: Conversation) -> bool:
    advertised = conversation.advertised
    lowest, highest = advertised.ranges.get(API_VERSIONS, (0, -1)) if advertised else (0, -1)
    return lowest <= request.api_version <= highest


def _give_up(state: PendingState) -> Iterator[Judgement]:
    if state.requests:
        yield undecided(len(state.requests))
        state.requests.clear()
