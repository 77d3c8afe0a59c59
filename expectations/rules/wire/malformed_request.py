"""wire/malformed-request."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


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
    API versions that the loaded schemas do not know, but for two things that hold in all of them: no version
    is negative, and the client ID of ApiVersions has a length of two bytes, which every broker can read.
    Requests that were not captured whole are undecided, and so are those whose bytes were cut away unread.
    """

    section = "Protocol guide, Request Header and the API's schema"
    requirement = "A request follows the schema of the API version that its header names."
    needs = "a request"
    message = "{api} v{version} cannot be decoded: {reason} at {path}, byte {offset}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = ("kip1313/header-version-mismatch", "kip35/version-out-of-range")
    passes_clean = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request of a known API version, and each header that no release would read."""
        failure = request.failure
        if not request.known and failure is None:
            return
        if request.known and request.is_partly_read:
            yield undecided(Reason.CUT, request.count)
        elif failure is None:
            yield conforms(request.count)
        else:
            yield violates(
                request.count,
                expected=f"a request by the schema of version {request.api_version}"
                if request.known
                else "a header that every broker can read",
                observed=failure.reason,
                context=failure.context,
            )
