"""The facts of ApiVersions: which request an answer belongs to, and what the answers have refused.

What a request claims is worth judging only once it is known that the broker understood it, so
requests are kept until they are answered.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, INVALID_REQUEST, REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION
from expectations.conversation.observation import Advertisement, Observation, SoftwareClaim

WAITING_LIMIT = 16
"""ApiVersions requests that wait for their answer at once; the oldest is given up for another."""


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """An ApiVersions request that makes claims; `advertised` tells that its version was."""

    request: Observation
    claim: SoftwareClaim
    advertised: bool


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """The versions of ApiVersions that an answer with error 35 offers, None if it names none."""

    offered: tuple[int, int] | None


class Negotiation(msgspec.Struct, omit_defaults=True):
    """The ApiVersions requests of one connection and their answers.

    `answered` is the request that the latest observation answers, `given_up` are those whose answer
    will not be known because of it. `refusal` stands until another answer comes. `errors` are the
    errors of refusals after which a client should leave the connection, each with the sequence of
    the first answer that gave it.
    """

    waiting: dict[int, Asked] = {}
    answered: Asked | None = None
    given_up: list[Asked] = []
    refusal: Refusal | None = None
    errors: dict[int, int] = {}

    def hear(self, observation: Observation, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Take one observation in. `ranges` are the advertised ones, by API key."""
        self.answered, self.given_up = None, []
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE, Kind.CLOSED):
            self._give_up()
        elif observation.api_key != API_VERSIONS:
            return
        elif observation.kind is Kind.REQUEST:
            self._ask(observation, ranges)
        elif observation.is_matched:
            self.answered = self.waiting.pop(observation.paired_sequence, None)
            self._hear_answer(observation)

    def _give_up(self) -> None:
        self.given_up = list(self.waiting.values())
        self.waiting.clear()
        self.refusal = None

    def _ask(self, request: Observation, ranges: Mapping[int, tuple[int, int]]) -> None:
        if not isinstance(request.body, SoftwareClaim):
            return
        if len(self.waiting) >= WAITING_LIMIT:
            self.given_up = [self.waiting.pop(next(iter(self.waiting)))]
        lowest, highest = ranges.get(API_VERSIONS, (0, -1))
        is_advertised = lowest <= request.api_version <= highest
        self.waiting[request.first_sequence] = Asked(request, request.body, is_advertised)

    def _hear_answer(self, response: Observation) -> None:
        answer = response.body
        self.refusal = None
        if not isinstance(answer, Advertisement):
            return
        if answer.error_code == UNSUPPORTED_VERSION:
            self.refusal = Refusal(own_range(answer))
        elif answer.error_code in (INVALID_REQUEST, REBOOTSTRAP_REQUIRED):
            self.errors.setdefault(answer.error_code, response.first_sequence)


def own_range(answer: Advertisement) -> tuple[int, int] | None:
    """Give the range that an answer lists for ApiVersions itself."""
    return next(((lowest, highest) for key, lowest, highest in answer.ranges if key == API_VERSIONS), None)
