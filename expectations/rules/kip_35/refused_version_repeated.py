"""kip35/refused-version-repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import is_refused_version
from expectations.identity.shown import ENOUGH
from expectations.rules.base.reason import why_maybe_supported
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

SLOW = 5 * 1_000_000_000
"""Nanoseconds between two refusals of a probe, which asks once per connection and leaves."""

TimeOf = Callable[[Claim], int]
"""When a connection began, or was refused, in nanoseconds since the epoch."""


class RefusedVersionRepeated(IdentityRule):
    """Checks that a client does not send a request for the third time after two refusals of its version.

    ## Why it matters
    The broker will refuse it again. A client that cannot take no for an answer never gets to work, and its
    reconnects cost the broker more than any other client's traffic.

    ## Example
    `ApiVersions v4` is answered with error 35, and asked again ten times a second. Or a client connects,
    sends `JoinGroup v1`, which the broker's range 2 to 9 does not have, is disconnected, and connects again.

    ## What to do
    Choose another version after a refusal: one of the list that the broker gives, or version 0 of
    ApiVersions. Give up with an error if there is none. Wait longer before each attempt.

    ## What it does not cover
    What refuses is error 35, or a close upon a version that is known not to be supported at the address. A
    restart refuses nothing. A client is identified by its address, client ID and software. Refusals count
    only one after the other: a connection that was already open when another one was refused, or a request
    already in flight, repeats nothing. A client that asks one version of ApiVersions on each connection, is
    refused and goes on with another version obeys the KIP, also if it connects again to do so.

    Replicas behind one address, with one client ID and software, may each be refused once. So refusals on
    several connections are a violation only if the client instance ID shows one process, and information
    otherwise, as is a probe that is refused once per connection, at least 5 s apart. Connections with
    different client instance IDs, or principals, repeat nothing.
    """

    section = "Proposed Changes"
    requirement = "After a refusal a client uses a version that the broker supports."
    needs = "a client of which a version is refused, and that asks or connects again"
    message = "{api} v{version} was sent again after it had been refused twice in a row, {where}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = (
        "kip35/version-refused",
        "kip35/version-out-of-range",
        "kip35/api-not-advertised",
        "kip511/fallback-version-wrong",
        "wire/unknown-api",
    )
    kind = IdentityKind.BROKER
    further_kinds = frozenset({IdentityKind.CLIENT})
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the claim is about a client, or about any refusal but the first of ApiVersions."""
        if claim.identity.kind is IdentityKind.CLIENT:
            return True
        refused = claim.refused
        return refused is not None and (refused.api_key != API_VERSIONS or refused.times != 1)

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a refusal by earlier ones: of the request at this server, or of ApiVersions with error 35."""
        if claim.identity.kind is IdentityKind.CLIENT:
            return _judge_reconnects(claim, others)
        assert claim.refused is not None
        if claim.refused.times > 1:
            return _violates("on one connection", Level.VIOLATION)
        return _judge_refusals(claim, others)


def _judge_refusals(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge a request other than ApiVersions by what the same client was refused on earlier connections."""
    alike = [other for other in others if other.refused and other.refusal == claim.refusal]
    is_refused = is_refused_version(claim, others)
    if is_refused is None:
        is_third = _chain(claim, alike, _refused_at)
        return undecided(why_maybe_supported(claim, others)) if is_third else None
    if not is_refused:
        return None
    refused = [other for other in alike if is_refused_version(other, [claim, *others])]
    return _judge_in_a_row(claim, refused, _refused_at)


def _judge_reconnects(claim: Claim, others: Sequence[Claim]) -> Judgement | None:
    """Judge a connection on which ApiVersions was refused with error 35, and that was then given up."""
    if not _gave_up(claim):
        return None
    alike = [other for other in others if _gave_up(other) and other.refusal == claim.refusal]
    chain = _chain(claim, alike, _given_up_at)
    there = (other for other in others if other.server == claim.server)
    if chain and any(_got_through(other) and chain[0] <= other.since <= chain[-1] for other in there):
        return conforms()
    return _judge_in_a_row(claim, alike, _given_up_at)


def _judge_in_a_row(claim: Claim, alike: Sequence[Claim], ended_at: TimeOf) -> Judgement:
    """Judge a refusal by earlier ones that are alike, first by those that surely are of the same process."""
    if chain := _chain(claim, filter(claim.is_same_process, alike), ended_at):
        first, second, third = chain
        is_slow = second - first >= SLOW and third - second >= SLOW
        level = Level.INFORMATION if is_slow else Level.VIOLATION
        return _violates("on connections of one client instance", level)
    if _chain(claim, filter(claim.may_be_same_client, alike), ended_at):
        return _violates("on connections one after another", Level.INFORMATION)
    return conforms()


def _chain(claim: Claim, earlier: Iterable[Claim], ended_at: TimeOf) -> list[int]:
    """Return when the claim and the latest two before it were refused, each begun after the one before ended.

    Empty if there are no two. A connection that two feeders see counts once.
    """
    chain = [claim]
    for other in sorted(earlier, key=ended_at, reverse=True):
        is_before = ended_at(other) < _began_at(chain[0]) and len(chain) <= ENOUGH
        if is_before and not any(other.may_be_copy_of(each) for each in chain):
            chain.insert(0, other)
    return [ended_at(each) for each in chain] if len(chain) > ENOUGH else []


def _violates(where: str, level: Level) -> Judgement:
    return violates(
        expected="another version, or none",
        observed="the version that was refused twice",
        context={"where": where},
        level=level,
    )


def _began_at(claim: Claim) -> int:
    return 0 if claim.joined else claim.opened_at


def _refused_at(claim: Claim) -> int:
    return claim.since


def _given_up_at(claim: Claim) -> int:
    return claim.negotiated.refused_at if claim.negotiated else 0


def _gave_up(claim: Claim) -> bool:
    """Whether the connection's only request was an ApiVersions version that error 35 refused."""
    refused_version = claim.negotiated.refused_version if claim.negotiated else -1
    return _given_up_at(claim) > 0 and (claim.api_key, claim.api_version) == (API_VERSIONS, refused_version)


def _got_through(claim: Claim) -> bool:
    """Whether the client got further than ApiVersions, or was at least not refused."""
    negotiated = claim.negotiated
    return negotiated is not None and (negotiated.used_at > 0 or not _given_up_at(claim))
