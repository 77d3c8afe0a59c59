"""wire/unknown-api."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


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
    counts as unknown. A negative version is wire/malformed-request. A request of which not even its API
    was captured is undecided, and so is one of such a version that was cut before its last byte, which
    alone proves it.
    """

    section = "Protocol guide, API keys"
    requirement = "The loaded schemas describe the API versions in use."
    needs = "a request"
    message = "none of the loaded schemas has {api} v{version}"
    level = Level.INFORMATION
    implies = ("kip35/version-refused",)
    role = Role.CLIENT
    passes_clean = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request."""
        is_nameless = request.cut and -1 in (request.api_key, request.api_version)
        if is_nameless or request.unproven:
            yield undecided(why_unread(request), request.count)
        elif request.known:
            yield conforms(request.count)
        elif request.api_version >= 0 or request.failure is None:
            yield violates(
                request.count,
                expected="an API version of the loaded schemas",
                observed=f"API {request.api_key} v{request.api_version}",
            )
