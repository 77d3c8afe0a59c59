"""kip35/advertised-version-refused."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import Claim, IdentityKind, Refused
from expectations.identity.known_ranges import (
    ENOUGH_CLOSES,
    are_in_a_row,
    counted_closes,
    first_response,
    is_negotiation_refused,
    known_ranges,
)
from expectations.identity.shown import is_advertised
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

_BY_CLOSING = f"by closing the connection, at least {ENOUGH_CLOSES} times"


class AdvertisedVersionRefused(IdentityRule):
    """Checks that a broker takes the versions that it advertises.

    ## Why it matters
    The client did all that the KIP asks of it, and its connection is closed without a word. It has no
    way to find out which version to use.

    ## Example
    The ApiVersions response lists `Metadata 0 to 13`. On three connections in a row the broker closes
    after `Metadata v13`, and it never responded to that version. Or `ApiVersions v4` is refused with error
    35 beside the range 0 to 4.

    ## What to do
    Compare what the broker advertises with what it supports; look for a proxy that passes on the list
    of a broker that is not its own.

    ## What it does not cover
    A close may have many reasons. It counts only if the request could be decoded and was the only one without
    a response, for ten seconds at most, on three connections one after another (a broker that stops closes
    all at once), and if no response to that version was seen at this address. Less is undecided. So is a
    close upon a request that was cut, and one about ACLs: Kafka closes upon kinds that it does not know.

    A listener that demands a login closes upon whatever comes before it: see kip35/request-before-sasl. So a
    close counts only on a connection that the broker served before, or that logged in, or at an address that
    serves others without a login. A broker also closes upon a client whose login has expired and that does
    not log in again (KIP-368), so it counts only in the first minute of a connection that logged in.

    Error 35 in a well-formed response of another API conforms: a feature may be off. A client's first
    ApiVersions request is compared with what others at the address were told, under the conditions of
    kip511/unknown-version-closed. Produce 0 to 2 is not judged: released brokers advertise those versions
    without having them, for the sake of old clients, and no schema has them any more.
    """

    section = "Proposed Changes, ApiVersionResponse"
    requirement = "A broker supports every version that it advertises and does not disconnect for one."
    needs = "a broker that refuses a listed version, or closes upon it"
    message = "{api} v{version}, which is advertised, was refused {how}"
    level = Level.VIOLATION
    role = Role.BROKER
    kind = IdentityKind.BROKER
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the refusal is the first of a version that was advertised, here or to others."""
        refused = claim.refused
        return (
            refused is not None
            and refused.times <= 1
            and (is_advertised(refused) or _is_first_question(refused))
        )

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a refusal by all that the broker refused and responded to."""
        assert claim.refused is not None
        if not is_advertised(claim.refused):
            return self._judge_first_question(claim, others)
        if claim.refused.by_error:
            is_negotiation = claim.refused.api_key == API_VERSIONS
            return self._violates("with error 35") if is_negotiation else conforms()
        if claim.refused.is_unread:
            return undecided(Reason.CUT)
        closes = counted_closes(claim, others)
        is_answered = first_response(others, *claim.refused.request) is not None
        if claim not in closes or is_answered or not are_in_a_row(closes):
            return undecided(Reason.OTHER_CAUSE)
        return self._violates(_BY_CLOSING)

    def _judge_first_question(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a close upon ApiVersions in a version that was advertised to others."""
        known = known_ranges(claim, others)
        if not known.include(claim.api_version):
            return None
        is_refused = is_negotiation_refused(claim, others)
        return self._violates(_BY_CLOSING) if is_refused else undecided(Reason.OTHER_CAUSE)

    def _violates(self, how: str) -> Judgement:
        return violates(
            expected="a response in the version of the request",
            observed=f"refused {how}",
            context={"how": how},
        )


def _is_first_question(refused: Refused) -> bool:
    """Whether a broker closed upon ApiVersions, captured whole, before it advertised any versions."""
    is_close = refused.is_whole and not refused.by_error
    return is_close and refused.api_key == API_VERSIONS and refused.advertised is None
