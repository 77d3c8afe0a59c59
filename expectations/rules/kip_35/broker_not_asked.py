"""kip35/broker-not-asked."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind, Negotiated
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

LONG = 60 * 1_000_000_000
"""Nanoseconds for which a connection is in use before it is known to be used without asking."""
ENOUGH = 3
"""Connections, one after another, that show the same however short they are; or brokers, each used so."""
AT_ONCE = 1_000_000_000
"""Nanoseconds within which a client that asks at all asks for the versions, once it uses a connection."""


class BrokerNotAsked(IdentityRule):
    """Checks that a client that asks one broker for its versions asks the others of the cluster, too.

    ## Why it matters
    Brokers of one cluster differ while it is upgraded. A client that goes by one broker's list works until
    the first or the last broker is upgraded, and is disconnected by it from then on.

    ## Example
    Client "orders" asks ApiVersions of broker 1 and produces to broker 2 for an hour. It never asks broker 2.

    ## What to do
    Ask on each connection, and keep the versions with that connection.

    ## What it does not cover
    ApiVersions is optional: clients that never ask are not judged. A client is identified by its address and
    client ID; connections with different principals are not compared. Two programs that share all of these
    look like one, so it is undecided if a connection to a broker that was asked was used without asking, or
    if the connection was opened before the client first asked anywhere. The connection must be seen from its
    opening and be in use for a minute, or be the third such connection in a row, or one of those to three
    brokers that are all used so. Connections to a broker that was asked before belong to
    kip35/negotiation-not-repeated.
    """

    section = "Scenarios"
    requirement = "A client asks each broker that it uses for the versions that this broker supports."
    needs = "a client that uses two brokers of one cluster"
    message = "the connection was used without ApiVersions, which the client asks other brokers ({asked})"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kind = IdentityKind.CLIENT
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a connection that was used, by what the client asked there and elsewhere until then."""
        used = _negotiated(claim)
        asked = [other for other in others if other.server != claim.server and _negotiated(other).asked_at]
        if not used.used_at or not asked:
            return None
        there = [claim, *(other for other in others if other.server == claim.server)]
        times = _offends_at(claim, there), _one_of_several_at(claim, asked, others)
        at = min((each for each in times if each is not None), default=None)
        if at is None:
            return conforms() if used.asked_at else None
        if any(0 < _negotiated(other).asked_at <= at for other in there):
            return conforms() if used.asked_at else None
        asked = [
            other for other in asked if _negotiated(other).asked_at <= at and claim.may_be_same_client(other)
        ]
        if not asked:
            return None
        doubt = _doubt(claim, there, asked, others)
        if doubt is not None:
            return undecided(doubt)
        first = min(asked, key=lambda other: _negotiated(other).asked_at)
        return violates(
            expected="ApiVersions on a connection to this broker",
            observed="ApiVersions on connections to others only",
            context={"asked": first.server},
        )


def _offends_at(claim: Claim, there: Sequence[Claim]) -> int | None:
    """Return when a connection had been used for long without asking, None if that did not come about."""
    used = _negotiated(claim)
    if not 0 < used.asked_at <= used.used_at + LONG and claim.until >= used.used_at + LONG:
        return used.used_at + LONG
    in_a_row, ended_at = 0, -1
    for other in sorted(there, key=lambda each: (each.opened_at, each.connection)):
        has_ended = other is claim or other.has_left
        if has_ended and other.opened_at > ended_at and _negotiated(other).used_at:
            in_a_row, ended_at = in_a_row + 1, other.until
            if other is claim:
                return used.used_at if in_a_row >= ENOUGH and not used.asked_at else None
    return None


def _one_of_several_at(claim: Claim, asked: Sequence[Claim], others: Sequence[Claim]) -> int | None:
    """Return when a connection was one to ENOUGH brokers that the client used without asking any of them.

    Connections that are older than the client's first question may be another program's.
    """
    own, since = _unasked_at(claim), min(other.opened_at for other in asked)
    if own is None:
        return None
    used_at: dict[str, int] = {claim.server: own}
    for other in others:
        at = _unasked_at(other) if other.opened_at > since and claim.may_be_same_client(other) else None
        if at is not None and other.server != claim.server:
            used_at[other.server] = min(at, used_at.get(other.server, at))
    asked_at = [(other.server, _negotiated(other).asked_at) for other in others]
    unasked = [
        at
        for server, at in used_at.items()
        if not any(there == server and 0 < when <= at for there, when in asked_at)
    ]
    return max(own, sorted(unasked)[ENOUGH - 1]) if len(unasked) >= ENOUGH else None


def _unasked_at(claim: Claim) -> int | None:
    """Return when a connection had been used, and not only begun to be, without a question."""
    used = _negotiated(claim)
    at = used.used_at + AT_ONCE
    if not used.used_at or 0 < used.asked_at <= at:
        return None
    return at if claim.until >= at else claim.until if claim.has_left else None


def _doubt(
    claim: Claim, there: Sequence[Claim], asked: Sequence[Claim], others: Sequence[Claim]
) -> Reason | None:
    """Return why a client may be none that asks wherever it ever asked, and did not ask this broker."""
    if not all(other.whole for other in there):
        return why_partly_seen(*there)
    servers = {other.server for other in asked}
    is_mixed = any(
        other.server in servers and _negotiated(other).used_at and not _negotiated(other).asked_at
        for other in others
    )
    is_early = claim.opened_at < min(other.opened_at for other in asked)
    return Reason.AMBIGUOUS_PROCESS if is_early or is_mixed else None


def _negotiated(claim: Claim) -> Negotiated:
    return claim.negotiated or Negotiated()
