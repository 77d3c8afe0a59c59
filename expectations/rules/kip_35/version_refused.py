"""kip35/version-refused."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import NOT_LISTED, Claim, IdentityKind
from expectations.identity.known_ranges import (
    ENOUGH_CLOSES,
    FIRST_IN_KAFKA_4,
    is_refused_version,
    known_ranges,
)
from expectations.rules.base.reason import why_maybe_supported
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class VersionRefused(IdentityRule):
    """Checks that no request is refused because the broker does not support its version.

    ## Why it matters
    The broker closes the connection without a response. Most clients connect again and send the same
    request, for ever: after an upgrade of the brokers this is how old clients die. Their log says no more
    than that the connection was lost.

    ## Example
    The broker at 10.0.0.2:9092 lists `JoinGroup 2 to 9`. A client sends `JoinGroup v1`, and the broker
    closes the connection.

    ## What to do
    Upgrade the client's library, or let it choose its versions from the broker's ApiVersions response on
    each connection. Kafka 4.0 removed the versions that were current before Kafka 2.1 (KIP-896); the finding
    says so if the version is one of them.

    ## What it does not cover
    ApiVersions itself, whose refusal KIP-511 describes. A refusal is error 35, or a close by the broker
    within ten seconds, while this request is the only one in flight. Where the connection was joined midway,
    or bytes of it were lost, that is known once a later request has its response, since a broker responds in
    order; until then a close is no check. The ranges are those that the connection was told; if it was told
    none, those that the broker told others at the same address before. Two lists that are made there in turns
    count both, and a list counts on for the connections that were opened while it was in force. An API that
    is not listed at all is as unsupported as a version outside the range: brokers list whatever the listener
    takes.

    Where nobody ever asked for versions, one that Kafka 4.0 removed is refused if the broker closes upon it
    three times in a row, on connections that logged in or where it serves others without a login, never
    responded to it, and closes upon nothing else within a minute. A request that was cut, of a version that
    a schema has, does not count there. Otherwise, if no list is known, or the broker has responded to that
    version all the same, at the address or on this connection, it is undecided. A version inside the range
    conforms: a close alone refuses nothing. A Produce that cannot be read is undecided, since it may expect
    no response.
    """

    section = "Proposed Changes"
    requirement = "A client uses versions that the broker supports; the broker disconnects it otherwise."
    needs = "a request that a broker refuses or closes upon because of its version"
    message = "{api} v{version} was refused {how}: it is {side} what {told}{range}{removed}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = (
        "kip35/refused-version-repeated",
        "kip35/version-out-of-range",
        "kip35/api-not-advertised",
        "wire/unknown-api",
    )
    kind = IdentityKind.BROKER

    def waits_for(self, claim: Claim) -> bool:
        """An advertisement on the connection suffices; those to others may not be known yet."""
        return claim.refused is None or claim.refused.advertised is None

    def concerns(self, claim: Claim) -> bool:
        """Whether a request other than ApiVersions was refused."""
        return claim.refused is not None and claim.refused.api_key != API_VERSIONS

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a refusal by the ranges that were known for the address."""
        is_refused = is_refused_version(claim, others)
        if is_refused is None:
            return undecided(why_maybe_supported(claim, others))
        return _violates(claim, others) if is_refused else conforms()


def _violates(claim: Claim, others: Sequence[Claim]) -> Judgement:
    assert claim.refused is not None
    refused, known = claim.refused, known_ranges(claim, others)
    if not known.ranges:
        return _violates_without_list(FIRST_IN_KAFKA_4[refused.api_key], refused.api_version)
    lowest, highest = known.ranges[-1]
    is_listed = known.ranges[-1] != NOT_LISTED
    side = ("below" if refused.api_version < lowest else "above") if is_listed else "not in"
    return violates(
        expected=f"version {lowest} to {highest}" if is_listed else "an API that the broker lists",
        observed=f"version {refused.api_version}",
        context={
            "how": "with error 35" if refused.by_error else "by closing the connection",
            "side": side,
            "told": f"{'others at this address were' if known.by_others else 'this connection was'} told",
            "range": f", {lowest} to {highest}" if is_listed else "",
            "removed": removal(refused.api_key, refused.api_version, lowest) if is_listed else "",
            **({"lowest": str(lowest), "highest": str(highest)} if is_listed else {}),
        },
    )


def _violates_without_list(lowest: int, version: int) -> Judgement:
    return violates(
        expected=f"version {lowest} or above",
        observed=f"version {version}",
        context={
            "how": f"by closing the connection, at least {ENOUGH_CLOSES} times",
            "side": "below",
            "told": "Kafka 4.0 left (KIP-896)",
            "range": f", {lowest} and above",
            "removed": "",
            "lowest": str(lowest),
        },
    )


def removal(api_key: int, version: int, lowest: int) -> str:
    """Return what removed a version below a broker's range, empty if that is not known.

    It is known only if the range begins where that of Kafka 4.0 does.
    """
    is_removed = version < lowest == FIRST_IN_KAFKA_4.get(api_key)
    return "; Kafka 4.0 removed the versions below (KIP-896)" if is_removed else ""
