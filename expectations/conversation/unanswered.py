"""The facts of who waits for an answer: how many requests of each API version were not answered yet."""

from __future__ import annotations

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import PRODUCE
from expectations.conversation.observation import Observation

UNREADABLE_PRODUCE = (PRODUCE, -1)
"""A Produce whose acks were not read, so that nobody knows whether it is owed an answer."""
ApiVersion = tuple[int, int]
"""An API key and a version."""


class Unanswered(msgspec.Struct, omit_defaults=True):
    """The requests of one connection that no answer was matched to, by API key and version.

    A Produce that could not be read makes the whole uncertain.
    """

    counts: dict[ApiVersion, int] = {}

    def hear(self, observation: Observation) -> None:
        """Take one observation in."""
        asked = (observation.api_key, observation.api_version)
        if observation.kind is Kind.REQUEST and observation.owes_answer:
            is_certain = observation.known and observation.failure is None
            self._add(asked if is_certain or asked[0] != PRODUCE else UNREADABLE_PRODUCE, observation.count)
        elif observation.kind is Kind.RESPONSE and observation.is_matched:
            self._add(asked, -observation.count)

    def _add(self, asked: ApiVersion, count: int) -> None:
        left = self.counts.get(asked, 0) + count
        if left:
            self.counts[asked] = left
        else:
            self.counts.pop(asked, None)

    @property
    def only_one(self) -> ApiVersion | None:
        """The API version of the only request that waits, None if there are more or it is uncertain."""
        if list(self.counts.values()) != [1] or UNREADABLE_PRODUCE in self.counts:
            return None
        return next(iter(self.counts))
