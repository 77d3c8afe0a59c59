"""wire/unknown-api."""

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


class UnknownApi(Rule):
    """Checks that the loaded schemas know the API and version of each request.

    ## Why it matters
    Nothing of such a request or its response is judged: as long as it goes on, the other rules see less
    than they seem to. If the version is one that the broker no longer has, the client is in trouble, too:
    kip35/version-refused reports it when the broker refuses the request.

    ## Example
    `API 96 v0`, `ApiVersions v6` of a release that is newer than the schemas, or `ListOffsets v0`, which
    Kafka 4.0 removed

    ## What to do
    Compare the version with those of the schemas. If it is above them, load the schemas of the newer
    release with `--schemas`. If it is below them, a release removed it: upgrade the client. If no release
    has the API, ask whose client it is.

    ## What it does not cover
    A version that is known from the KIP-1313 overlay alone and does not prove to have its layout
    counts as unknown. A request of which not even its API was captured is undecided, and so is one of
    such a version that was cut before its last byte, which alone proves it.
    """

    section = "Protocol guide, API keys"
    requirement = "The loaded schemas describe the API versions in use."
    message = "none of the loaded schemas has API {key} v{version}"
    level = Level.INFORMATION
    implies = ("kip35/version-refused",)
    role = Role.CLIENT
    kinds = REQUESTS
    passes_clean = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each request."""
        if observation.kind is not Kind.REQUEST:
            return
        is_nameless = observation.cut and -1 in (observation.api_key, observation.api_version)
        if is_nameless or observation.unproven:
            yield undecided(observation.count)
        elif observation.known:
            yield conforms(observation.count)
        else:
            yield Judgement(
                Verdict.VIOLATES,
                observation.count,
                expected="an API version of the loaded schemas",
                observed=f"API {observation.api_key} v{observation.api_version}",
                context={"key": str(observation.api_key)},
            )
