"""wire/answer-without-request."""

from __future__ import annotations

from collections.abc import Iterator

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


class AnswerWithoutRequest(Rule):
    """Checks that a broker sends no response without a request that expects one.

    ## Why it matters
    The client takes it for the response to its next request and misreads all that follow, or closes the
    connection.

    ## Example
    A Produce with acks 0, and then a response to it

    ## What to do
    Look for what responds twice: a broker that responds to a Produce with acks 0, or a proxy that sends
    a response of its own and then the broker's.

    ## What it does not cover
    Responses that come out of order: wire/correlation-mismatch. After lost bytes a request may have
    passed unseen: undecided.
    """

    section = "Protocol guide, Network"
    requirement = "A broker sends one response for each request that expects one."
    message = "an answer with correlation ID {observed} came although no request waits for one"
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
        match observation.pairing:
            case Pairing.MATCHED | Pairing.FOREIGN:
                yield conforms(observation.count)
            case Pairing.UNKNOWN:
                yield undecided(observation.count)
            case Pairing.UNOWED:
                observed = str(observation.correlation_id)
                yield Judgement(
                    Verdict.VIOLATES,
                    observation.count,
                    expected="no answer",
                    observed=f"correlation ID {observed}",
                    context={"observed": observed},
                )
