"""kip511/fallback-version-wrong."""

from __future__ import annotations

from decoders.protocol import API_VERSIONS, NAMES_SOFTWARE_FROM
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation, lacks_version
from expectations.rules.base.reason import Reason
from expectations.rules.base.response_rule import AfterResponseRule, SuspectedOffences
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, conforms, undecided, violates


class FallbackVersionWrong(AfterResponseRule):
    """Checks that a client whose ApiVersions version was refused retries with one that is supported.

    ## Why it matters
    The same refusal comes again, and again: the client never connects to a broker that is older than
    itself. A client that goes back to version 0 without need connects, but its software's name and version
    are missing from the broker's metrics and logs.

    ## Example
    `ApiVersions v5` is refused with error 35 and the range 0 to 4, and then comes `ApiVersions v5`. An
    improvement: then comes `ApiVersions v0`.

    ## What to do
    Read the range that the refusal lists for API key 18 and take the highest version that both sides
    have; version 0 if there is no range.

    ## What it does not cover
    A client that gives up, or retries on another connection. A retry outside the range within a second of
    the refusal is undecided, unless the client does not pipeline and the broker refuses the retry as well,
    or it is the client's third. So is a retry that was cut before its version, and one on a connection that
    several clients share. A retry after lost bytes is not judged. Version 0 is right where the range ends
    below version 3, the first that names the software.
    """

    section = "Proposed Changes, ApiVersions Request/Response Handling"
    requirement = "After error 35 a client retries with a version of the listed range, or with version 0."
    needs = "a client whose ApiVersions version is refused with error 35"
    message = "after error 35 ApiVersions was retried with v{version} instead of {expected}"
    level = Level.VIOLATION
    role = Role.CLIENT
    apis = frozenset({API_VERSIONS})

    def on_request(
        self, request: Observation, conversation: Conversation, state: SuspectedOffences
    ) -> Judgements:
        """Judge each ApiVersions request after a refusal."""
        offered = _needlessly_left(request, conversation)
        is_retry = request.api_key == API_VERSIONS and conversation.negotiation.refusal is not None
        if is_retry and conversation.shares_clients:
            yield undecided(Reason.AMBIGUOUS_PROCESS)
        elif is_retry and lacks_version(request):
            yield undecided(Reason.CUT)
        elif offered is None:
            yield from super().on_request(request, conversation, state)
        elif request.settled or request.informed:
            # Nothing but the refusal makes a client ask again with version 0, so once is enough.
            yield _retreats(*offered)
        else:
            yield undecided(Reason.UNDER_WAY)

    def judge_request(self, request: Observation, conversation: Conversation) -> Judgement | None:
        """Compare the version of a retry with those that the refusal offers."""
        refusal = conversation.negotiation.refusal
        if request.api_key != API_VERSIONS or refusal is None:
            return None
        lowest, highest = refusal.offered or (0, 0)
        if request.api_version == 0 or lowest <= request.api_version <= highest:
            return conforms()
        named = f"v{lowest} to v{highest}{', or v0' if lowest else ''}"
        return violates(
            expected=f"version {lowest} to {highest}{', or 0' if lowest else ''}",
            observed=f"version {request.api_version}",
            context={"expected": named if refusal.offered else "v0"},
        )


def _needlessly_left(request: Observation, conversation: Conversation) -> tuple[int, int] | None:
    """Return the versions that name the software, if a retry with version 0 leaves them unused."""
    refusal = conversation.negotiation.refusal
    if (request.api_key, request.api_version) != (API_VERSIONS, 0) or refusal is None:
        return None
    lowest, highest = refusal.offered or (0, 0)
    named = range(max(lowest, NAMES_SOFTWARE_FROM), highest + 1)
    return (named[0], named[-1]) if named else None


def _retreats(lowest: int, highest: int) -> Judgement:
    """Judge a retry that obeys KIP-35, but drops what KIP-511 is about."""
    return violates(
        expected=f"version {lowest} to {highest}",
        observed="version 0",
        context={"expected": f"one of v{lowest} to v{highest}"},
        level=Level.IMPROVEMENT,
    )
