"""kip35/api-not-advertised."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
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


class ApiNotAdvertised(Rule):
    """Checks that a client uses only APIs that the broker advertised.

    ## Why it matters
    The broker closes the connection without a response, together with everything else that was under
    way on it.

    ## Example
    The ApiVersions response does not list PushTelemetry, and then comes `PushTelemetry v0`.

    ## What to do
    Look the API up in the broker's latest ApiVersions response, and do without the feature if it is
    not there.

    ## What it does not cover
    ApiVersions itself. Requests before the first advertisement, or sent before the client can have
    read it: undecided. The version is judged by kip35/version-out-of-range.
    """

    section = "Proposed Changes"
    requirement = "A client learns from ApiVersions which APIs a broker supports, and uses no others."
    message = "{api} v{version} is used although the broker does not advertise that API"
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Look each request's API up in the ranges in force."""
        if observation.kind is not Kind.REQUEST or observation.api_key in (API_VERSIONS, -1):
            return
        if conversation.advertised is None:
            yield undecided(observation.count)
        elif observation.api_key in conversation.advertised.ranges:
            yield conforms(observation.count)
        elif not observation.settled:
            yield undecided(observation.count)
        else:
            yield Judgement(
                Verdict.VIOLATES,
                observation.count,
                expected="an API that the broker advertises",
                observed=f"API key {observation.api_key}",
            )
