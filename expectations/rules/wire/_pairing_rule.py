"""A base for rules on how responses are paired with requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from decoders.frame.record import Kind, Pairing
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import (
    RESPONSES,
    Judgement,
    Level,
    NoState,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)


class PairingRule(Rule):
    """A rule that a response breaks by its pairing. Responses of a pairing that is not named are not judged.

    `conforming` are the pairings that keep the rule, `offence` is the one that breaks it. `observed` says
    what is reported of an offence, with the correlation ID in braces.
    """

    conforming: ClassVar[frozenset[Pairing]]
    offence: ClassVar[Pairing]
    expected: ClassVar[str]
    observed: ClassVar[str]
    level = Level.VIOLATION
    role = Role.BROKER
    kinds = RESPONSES
    passes_clean = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each response by how it was paired."""
        if observation.kind is not Kind.RESPONSE:
            return
        if observation.pairing in self.conforming:
            yield conforms(observation.count)
        elif observation.pairing is Pairing.UNKNOWN:
            yield undecided(observation.count)
        elif observation.pairing is self.offence:
            correlation_id = str(observation.correlation_id)
            yield Judgement(
                Verdict.VIOLATES,
                observation.count,
                expected=self.expected,
                observed=self.observed.format(correlation_id),
                context={"observed": correlation_id},
            )
