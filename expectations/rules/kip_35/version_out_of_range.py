"""kip35/version-out-of-range."""

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


class VersionOutOfRange(Rule):
    """Checks that a request uses a version which the broker advertised for its API.

    ## Why it matters
    The broker closes the connection without a response. The client sees a broken connection and often
    retries for ever; after an upgrade of the brokers this is how old clients die.

    ## Example
    The ApiVersions response lists `Produce 3 to 13`, and then comes `Produce v2`.

    ## What to do
    Choose the version per connection from the broker's latest ApiVersions response.

    ## What it does not cover
    ApiVersions itself, whose fallback KIP-511 describes. Requests before the first advertisement, or
    sent before the client can have read it: undecided. An API that is not advertised at all
    is judged by kip35/api-not-advertised.
    """

    section = "Proposed Changes"
    requirement = (
        "A client uses, for each API, a version between the lowest and highest that the broker supports."
    )
    message = "{api} v{version} is outside the advertised range {lowest} to {highest}"
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Compare each request's version with the ranges in force."""
        if observation.kind is not Kind.REQUEST or observation.api_key in (API_VERSIONS, -1):
            return
        if conversation.advertised is None:
            yield undecided(observation.count)
            return
        advertised = conversation.advertised.ranges.get(observation.api_key)
        if advertised is not None:
            yield self._judge_version(observation, *advertised)

    def _judge_version(self, request: Observation, lowest: int, highest: int) -> Judgement:
        if lowest <= request.api_version <= highest:
            return conforms(request.count)
        if not request.settled:
            return undecided(request.count)
        return Judgement(
            Verdict.VIOLATES,
            request.count,
            expected=f"version {lowest} to {highest}",
            observed=f"version {request.api_version}",
            context={"lowest": str(lowest), "highest": str(highest)},
        )
