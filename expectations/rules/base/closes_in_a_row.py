"""Closes in a row: how often a broker closed connections upon one request, one connection after another."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import API_VERSIONS
from expectations.identity.claim import Claim
from expectations.identity.known_ranges import MINUTE, first_response, is_refused_version

ENOUGH_CLOSES = 3
"""Connections on which the same version must have been refused, one after another."""


def closes_upon_same(claim: Claim, others: Sequence[Claim]) -> list[Claim]:
    """Return the claims of all closes upon the request that a claim's connection was closed upon."""
    assert claim.refused is not None
    request = claim.refused.request
    closes = (each for each in (claim, *others) if each.refused and not each.refused.by_error)
    return [each for each in closes if each.refused and each.refused.request == request]


def count_in_a_row(closes: Sequence[Claim]) -> int:
    """Count connections in a row, each of which began after the one before was closed.

    A broker that stops closes all connections at once. A connection that two feeders see counts once.
    """
    row: list[Claim] = []
    for close in sorted(closes, key=lambda each: each.order):
        is_next = not row or close.opened_after(row[-1].since)
        if is_next and not any(close.may_be_copy_of(each) for each in row):
            row.append(close)
    return len(row)


def is_negotiation_refused(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether a broker closes upon a version of ApiVersions for this version, as closes in a row show.

    They show nothing if the broker ever responded to that version, if it also closed upon requests that it
    supports, or if it told nobody any versions at that time.
    """
    closes = closes_upon_same(claim, others)
    begin, end = min(close.opened_at for close in closes), max(close.since for close in closes)
    answered_at = first_response(others, API_VERSIONS, claim.api_version)
    if answered_at is not None and answered_at <= end + MINUTE:
        return False
    is_alive = any(other.ranges is not None and other.until >= begin - MINUTE for other in others)
    return is_alive and count_in_a_row(closes) >= ENOUGH_CLOSES and not _is_failing(closes, others)


def _is_failing(closes: Sequence[Claim], others: Sequence[Claim]) -> bool:
    """Whether the broker closed upon requests that it may support, while it closed upon these."""
    begin, end = min(close.opened_at for close in closes), max(close.since for close in closes)
    return any(
        other.refused is not None
        and other not in closes
        and not other.refused.by_error
        and begin - MINUTE <= other.since <= end + MINUTE
        and is_refused_version(other, others) is not True
        for other in others
    )
