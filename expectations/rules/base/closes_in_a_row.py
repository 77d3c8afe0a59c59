"""Closes in a row: how often a broker closed connections upon one request, one connection after another."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim

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

    A broker that stops closes all connections at once.
    """
    count, closed_at = 0, 0
    for close in sorted(closes, key=lambda each: each.order):
        if not count or close.opened_after(closed_at):
            count, closed_at = count + 1, close.since
    return count
