"""kip35/ranges-withheld."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Asked
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import ENOUGH_CLOSES, MINUTE, are_in_a_row, serves
from expectations.rules.base.negotiation_rule import NegotiationResponseRule
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Judgements,
    Level,
    Role,
    conforms,
    undecided,
    violates,
)


class RangesWithheld(NegotiationResponseRule, IdentityRule):
    """Checks that a broker lists all its versions before a login, too.

    ## Why it matters
    A client chooses by that list how it logs in, and many ask for no other. It does without what is not
    listed, or never gets as far as the login.

    ## Example
    A proxy lists `SaslHandshake 0 to 1` and nothing else; after the login the same connection is told 60
    APIs. Or it closes upon each ApiVersions that comes before the login.

    ## What to do
    Give the full list at any time. If the list tells strangers too much, let the listener demand
    certificates of clients: then nobody gets as far as ApiVersions without one.

    ## What it does not cover
    One connection proves nothing: an upgrade or a feature may come in between. It takes three in a row, each
    opened after the one before showed it. A list that is longer before the login than after it conforms. A
    close counts if ApiVersions, read to its last byte, was the only request, where clients are served only
    after a login, and nobody was ever told the versions before it. It is undecided if the broker told them to
    nobody before and after these closes, as far as the responses could be read, or closed upon a client that
    had logged in: it may be failing. Another error than 35 is not judged, nor is a connection that was joined
    midway or lost bytes.
    """

    section = "Proposed Changes"
    requirement = (
        "The broker returns its full list of APIs and versions whatever the state of authentication."
    )
    needs = "lists of versions before a login and after it"
    message = "before the login the broker {outcome}, at least {times} times in a row"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip35/ranges-changed", "kip35/advertised-version-refused", "kip511/unknown-version-closed")
    kind = IdentityKind.BROKER
    waits = True

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Clear a connection that was told the same before and after its login."""
        if conversation.withheld_before_login == ():
            yield conforms()

    def concerns(self, claim: Claim) -> bool:
        """Whether a list before a login lacked something, or the broker closed upon the question for it."""
        return bool(claim.withheld) or _is_close(claim)

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge by whether the same happened on other connections, one after another."""
        if claim.withheld:
            alike = [each for each in (claim, *others) if each.withheld]
            keys = ", ".join(map(str, claim.withheld))
            outcome = f"did not list all versions of the APIs {keys}"
        else:
            if not serves(others, after_login=True) or serves(others, after_login=False):
                return None
            if any(map(_is_told, others)):
                return None
            alike = [each for each in (claim, *others) if _is_close(each)]
            outcome = f"closed upon ApiVersions v{claim.api_version}"
            if not _is_well(alike, others):
                return undecided(Reason.OTHER_CAUSE)
        if not are_in_a_row(alike):
            return undecided(Reason.OTHER_CAUSE)
        return violates(
            expected="the list that the broker gives after the login",
            observed=outcome,
            context={"outcome": outcome, "times": str(ENOUGH_CLOSES)},
        )


def _is_close(claim: Claim) -> bool:
    """Whether the broker closed upon ApiVersions that came first."""
    refused = claim.refused
    if refused is None or refused.by_error or refused.api_key != API_VERSIONS or not refused.is_whole:
        return False
    return refused.advertised is None and not refused.shook_hands and not refused.admitted and claim.whole


def _is_told(claim: Claim) -> bool:
    """Whether somebody was told the versions before a login."""
    refused = claim.refused
    is_cut_off = refused is not None and refused.advertised is not None and not refused.admitted
    return claim.told_first or claim.only_asked or is_cut_off


def _is_well(closes: Sequence[Claim], others: Sequence[Claim]) -> bool:
    """Whether the broker told its versions before and after these closes, and closed upon no other client."""
    begin, end = min(close.opened_at for close in closes), max(close.since for close in closes)
    if not any(other.ranges and other.since < begin and other.until > end for other in others):
        return False
    return not any(
        other.refused is not None
        and other.refused.admitted
        and not other.refused.by_error
        and begin - MINUTE <= other.since <= end + MINUTE
        for other in others
    )
