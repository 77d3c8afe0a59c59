"""wire/malformed-request."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import (
    REQUESTS,
    Judgement,
    Level,
    NoState,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)


class MalformedRequest(Rule):
    """Checks that a complete request can be decoded by the schema of its API version.

    ## Why it matters
    The broker cannot read it either: it closes the connection without a response.

    ## Example
    `ConsumerGroupHeartbeat v1` whose member ID, which must not be null, is null.

    ## What to do
    The context gives the field's path, the byte offset in the frame and the reason: compare the
    client's encoder with Kafka's schema of that API version there.

    ## What it does not cover
    API versions that the loaded schemas do not know. Requests of which bytes were not captured or
    were cut away are undecided.
    """

    section = "Protocol guide, Request Header and the API's schema"
    requirement = "A request follows the schema of the API version that its header names."
    message = "{api} v{version} cannot be decoded: {reason} at {path}, byte {offset}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = ("kip1313/header-version-mismatch",)
    kinds = REQUESTS
    passes_clean = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each request of a known API version."""
        if observation.kind is not Kind.REQUEST or not observation.known:
            return
        failure = observation.failure
        if observation.cut:
            yield undecided(observation.count)
        elif failure is None:
            yield conforms(observation.count)
        else:
            yield Judgement(
                Verdict.VIOLATES,
                observation.count,
                expected=f"a request by the schema of version {observation.api_version}",
                observed=failure.reason,
                context=failure.context,
            )
