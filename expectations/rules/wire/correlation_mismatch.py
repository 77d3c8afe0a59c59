"""wire/correlation-mismatch."""

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


class CorrelationMismatch(Rule):
    """Checks that a broker responds to requests in their order, each with its own correlation ID.

    ## Why it matters
    The client takes the response for that of another request, or closes the connection. Reading one
    request's response as another's can corrupt what it believes of offsets and members.

    ## Example
    Requests 7 and 8 are on their way, and the first response has correlation ID 8.

    ## What to do
    Look for what reorders or invents responses: most often a proxy that forwards the requests of one
    connection on several.

    ## What it does not cover
    Responses that no request expects: wire/answer-without-request. A Produce with acks 0 has no
    response. After lost bytes, or a Produce that could not be read, order proves nothing until a response
    matches a later request: undecided.
    """

    section = "Protocol guide, Network"
    requirement = "Responses on a connection come in the order of the requests, with their correlation IDs."
    message = "an answer has correlation ID {observed}, which is not that of the oldest open request"
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
            case Pairing.MATCHED:
                yield conforms(observation.count)
            case Pairing.UNKNOWN:
                yield undecided(observation.count)
            case Pairing.FOREIGN:
                observed = str(observation.correlation_id)
                yield Judgement(
                    Verdict.VIOLATES,
                    observation.count,
                    expected="the correlation ID of the oldest request without an answer",
                    observed=observed,
                    context={"observed": observed},
                )
