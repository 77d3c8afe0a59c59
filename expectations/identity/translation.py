"""Whether two connections may be one, captured on both sides of an address translation.

The client's address differs and nothing else does. Both captures have the same frames, at times that differ
by one offset: that of their clocks, and none if one host captures both. So two connections are two if their
openings and their first frames differ by unequal offsets, or if one has a frame where the other surely has
none.
"""

from __future__ import annotations

from typing import Final

from expectations.identity.claim import Claim

MOST_OFFSET: Final = 1_000_000_000
"""Nanoseconds, at most, between the captures of one packet on both sides of an address translation."""
SAME_OFFSET: Final = 10_000_000
"""Nanoseconds, at most, by which this offset varies while a connection opens."""
LOST_FRAME: Final = 1.5
"""A distance between two frames that is this many times the other capture's may hide a lost frame."""


def may_be_translated(claim: Claim, other: Claim) -> bool:
    """Whether two connections of different hosts may be one TCP connection."""
    if claim.client_host == other.client_host or not claim.may_be_same_process(other):
        return False
    if _comes_between(claim, other) or _comes_between(other, claim):
        return False
    if claim.joined or other.joined:
        is_same_client = None in (claim.client_id, other.client_id) or claim.client_id == other.client_id
        return is_same_client and not _is_older(claim, other) and not _is_older(other, claim)
    return _shows_same(claim, other) and _begins_alike(claim, other)


def may_be_relayed(claim: Claim, other: Claim) -> bool:
    """Whether two connections to different servers may be one, on both sides of a proxy that changes it."""
    is_apart = _comes_between(claim, other) or _comes_between(other, claim)
    return not is_apart and _begins_alike(claim, other)


def _shows_same(claim: Claim, other: Claim) -> bool:
    """Whether the same request shows the identity first."""
    mine, others = (
        (each.api_key, each.api_version, each.client_id, each.instance_id) for each in (claim, other)
    )
    return mine == others


def _begins_alike(claim: Claim, other: Claim) -> bool:
    """Whether both connections open, and show the identity first, at one offset."""
    opened, shown = claim.opened_at - other.opened_at, claim.since - other.since
    return max(abs(opened), abs(shown)) <= MOST_OFFSET and abs(opened - shown) <= SAME_OFFSET


def _is_older(claim: Claim, other: Claim) -> bool:
    """Whether a connection was in use before the other one, seen from there on, was opened."""
    return not other.joined and claim.since < other.opened_at - MOST_OFFSET


def _comes_between(claim: Claim, other: Claim) -> bool:
    """Whether the latest frame of one connection comes between two frames in a row of the other.

    One of these may have been lost between the two: then they lie apart further than the frames of the first
    connection do.
    """
    is_between = other.before_until + MOST_OFFSET < claim.until < other.until - MOST_OFFSET
    apart, usual = other.until - other.before_until, claim.until - claim.before_until
    return is_between and apart < LOST_FRAME * usual
