"""kip511/unknown-version-closed."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import (
    ENOUGH_CLOSES,
    is_negotiation_refused,
    known_ranges,
    takes_requests,
)
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class UnknownVersionClosed(IdentityRule):
    """Checks that a broker responds to versions of ApiVersions that it does not know.

    ## Why it matters
    A client that is newer than the broker cannot find out what to use instead. It sees a lost connection,
    which could mean anything, and most clients retry the same version for ever.

    ## Example
    A broker responds to `ApiVersions v0`. On three connections in a row it closes upon `ApiVersions v3`,
    because its decoder fails on a version that it does not have.

    ## What to do
    Respond to an unknown version with response header 0, body version 0, error 35 and the versions of
    ApiVersions that there are, without reading the request's body.

    ## What it does not cover
    A close may have many reasons. So it counts only if the request could be read to its last byte and was the
    only one in flight, on three connections, each opened after the one before was closed. It is undecided if
    there were fewer, if the broker closed upon other requests that it supports at that time, if it ever
    responded to that version, if it told nobody its versions within a minute before the first close or later,
    or if it responded to no other version of ApiVersions: a port that speaks TLS closes upon each of them. Of
    a version that no schema has the header must be read, and a list of the broker must lack it: a broker
    reads no more of it. A listener that demands a login tells its versions only once before it, and closes
    upon the next question: undecided, unless the address serves others without a login.

    Requests on header v3, which released brokers misread, belong to
    kip1313/header-v3-before-negotiation, versions that the broker lists to kip35/advertised-version-refused.
    """

    section = "Proposed Changes, ApiVersions Request/Response Handling"
    requirement = "An unsupported version of ApiVersions gets a response in version 0 with error 35."
    needs = "a broker that closes upon a version of ApiVersions"
    message = "version {version} of ApiVersions was answered {times} times by closing the connection"
    level = Level.VIOLATION
    role = Role.BROKER
    kind = IdentityKind.BROKER
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the connection was closed upon ApiVersions, all of which a broker can read."""
        refused = claim.refused
        return (
            refused is not None
            and (refused.is_whole or refused.is_newer)
            and not refused.by_error
            and refused.api_key == API_VERSIONS
        )

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a close upon ApiVersions by what else the broker answered and closed upon."""
        refused = claim.refused
        assert refused is not None
        known = known_ranges(claim, others)
        if known.include(refused.api_version):
            return conforms()
        if known.is_unreadable:
            return undecided(Reason.NOT_SHOWN)
        is_known = known.lists_the_api or (not refused.is_newer and _responds_to_another(claim, others))
        if not is_known:
            return undecided(Reason.NOT_SHOWN)
        was_told = refused.advertised is not None
        if (was_told and not takes_requests(claim, others)) or not is_negotiation_refused(claim, others):
            return undecided(Reason.OTHER_CAUSE)
        return violates(
            expected="error 35 in response header 0 and body version 0",
            observed="no response",
            context={"times": f"at least {ENOUGH_CLOSES}"},
        )


def _responds_to_another(claim: Claim, others: Sequence[Claim]) -> bool:
    return any(
        other.api_key == API_VERSIONS and other.api_version != claim.api_version
        for other in others
        if not other.connection and other.ranges is None
    )
