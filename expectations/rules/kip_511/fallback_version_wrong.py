"""kip511/fallback-version-wrong."""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Refusal
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


class FallbackVersionWrong(Rule):
    """Checks that a client whose ApiVersions version was refused retries with one that is supported.

    ## Why it matters
    The same refusal comes again, and again: the client never connects to a broker that is older than
    itself.

    ## Example
    `ApiVersions v5` is refused with error 35 and the range 0 to 4, and then comes `ApiVersions v5`.

    ## What to do
    Read the range that the refusal lists for API key 18 and take the highest version that both sides
    have; version 0 if there is no range.

    ## What it does not cover
    A client that gives up, or retries on another connection. A retry outside the range that may have
    been under way when the refusal came is undecided, as is one after lost bytes.
    """

    section = "Proposed Changes, ApiVersions Request/Response Handling"
    requirement = "After error 35 a client retries with a version of the listed range, or with version 0."
    message = "after error 35 ApiVersions was retried with v{version} instead of {expected}"
    level = Level.VIOLATION
    role = Role.CLIENT
    kinds = REQUESTS
    apis = frozenset({API_VERSIONS})

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each ApiVersions request after a refusal."""
        refusal = conversation.negotiation.refusal
        if observation.kind is Kind.REQUEST and observation.api_key == API_VERSIONS and refusal is not None:
            yield self._judge_retry(observation, refusal)

    def _judge_retry(self, request: Observation, refusal: Refusal) -> Judgement:
        lowest, highest = refusal.offered or (0, 0)
        if request.api_version == 0 or lowest <= request.api_version <= highest:
            return conforms()
        if not request.settled:
            return undecided()
        expected = f"v0 or one of v{lowest} to v{highest}" if refusal.offered else "v0"
        return Judgement(
            Verdict.VIOLATES,
            expected=f"version {lowest} to {highest}, or 0",
            observed=f"version {request.api_version}",
            context={"expected": expected},
        )
