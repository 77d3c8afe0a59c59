"""kip35/advertised-version-refused."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import first_response
from expectations.identity.refusals import is_told
from expectations.rules.base.closes_in_a_row import ENOUGH_CLOSES, closes_upon_same, count_in_a_row
from expectations.rules.base.identity_rule import IdentityRule
from expectations.rules.base.rule import Judgement, Level, Role, Verdict, conforms, undecided


class AdvertisedVersionRefused(IdentityRule):
    """Checks that a broker takes the versions that it advertises.

    ## Why it matters
    The client did all that the KIP asks of it, and its connection is closed without a word. It has no
    way to find out which version to use.

    ## Example
    The ApiVersions response lists `Metadata 0 to 13`. On three connections in a row the broker closes
    after `Metadata v13`, and it never responded to that version.

    ## What to do
    Compare what the broker advertises with what it supports; look for a proxy that passes on the list
    of a broker that is not its own.

    ## What it does not cover
    A close may have many reasons. So it counts only if the request was the only one without a response,
    on connections one after another (a broker that stops closes all at once), and if no response to that
    version was seen at this address; less is undecided, and so is a close upon a version that the broker
    has responded to. Error 35 in a well-formed response of another API conforms: it may be that a feature is
    off. Produce 0 to 2 is not judged: released brokers advertise those versions without having them, for the
    sake of old clients, and no schema has them any more.
    """

    section = "Proposed Changes, ApiVersionResponse"
    requirement = "A broker supports every version that it advertises and does not disconnect for one."
    message = "{api} v{version}, which is advertised, was refused {how}"
    level = Level.VIOLATION
    role = Role.BROKER
    kind = IdentityKind.BROKER
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether a version that the connection was told of was refused, for the first time."""
        return claim.refused is not None and is_told(claim.refused) and claim.refused.times <= 1

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a refusal by all that the broker refused and responded to."""
        assert claim.refused is not None
        if claim.refused.by_error:
            is_negotiation = claim.refused.api_key == API_VERSIONS
            return self._violates("with error 35") if is_negotiation else conforms()
        is_answered = first_response(others, *claim.refused.request) is not None
        if is_answered or count_in_a_row(closes_upon_same(claim, others)) < ENOUGH_CLOSES:
            return undecided()
        return self._violates(f"by closing the connection, at least {ENOUGH_CLOSES} times")

    def _violates(self, how: str) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            expected="an answer in the version of the request",
            observed=f"refused {how}",
            context={"how": how},
        )
