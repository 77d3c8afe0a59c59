"""Whether two connections that show one identity are of one client, or even one connection captured twice.

A *holder* is a client as far as its connections tell: one host, one software, one client ID. An identity may
be copied, with an image or by a stranger who has seen it. The holder that showed it last of the two came
second, even if the first holder then reconnects beside it.

A connection that is captured on both sides of an address translation appears twice, with two client
addresses. Both captures have the same frames, at times that differ by one offset: the difference of the two
clocks, or zero if one host captures both. So two connections are distinct if their frames differ by unequal
offsets, or if one has a frame where the other surely has none. The offsets of the openings and of the first
frames may be unequal: a packet may be lost between the captures and sent again, and the translation may take
longer for the first packet. Later frames show which offset is right. Where one capture lost bytes before its
first frame, the offset of the openings counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from expectations.identity.claim import Claim

MOST_OFFSET: Final = 1_000_000_000
"""Nanoseconds, at most, between the captures of one packet on both sides of an address translation."""
SAME_OFFSET: Final = 10_000_000
"""In nanoseconds: how much the offsets of two frames may differ that count as one."""
LONGEST_RESENDING: Final = 3_100_000_000
"""In nanoseconds: how long a packet may be late that is lost twice. A SYN is sent again after one second and
after three."""
LOST_FRAME: Final = 1.5
"""A distance between two frames that is this many times the other capture's may hide a lost frame."""


def is_of_holder(claim: Claim, other: Claim) -> bool:
    """Whether two connections are of one holder, as far as they tell."""
    if claim.client_host != other.client_host:
        return False
    mine, others = ((each.named_software, each.client_id) for each in (claim, other))
    return all(None in pair or pair[0] == pair[1] for pair in zip(mine, others, strict=True))


def came_second(claim: Claim, other: Claim, others: Sequence[Claim]) -> bool:
    """Whether the holder of a connection showed the identity later than that of another one.

    `others` are all connections that show it but that of `claim`.
    """
    if is_of_holder(claim, other):
        return other.order < claim.order
    for each in sorted((*others, claim), key=lambda each: each.order):
        is_of_one, is_of_other = is_of_holder(each, claim), is_of_holder(each, other)
        if is_of_one is not is_of_other:
            return is_of_other
    return other.order < claim.order


def software_of(claim: Claim) -> str:
    """Return the software of a holder as findings show it."""
    return " ".join(claim.named_software or ("unknown",))


def may_be_translated(claim: Claim, other: Claim) -> bool:
    """Whether two connections of different hosts may be one TCP connection."""
    if claim.client_host == other.client_host or not claim.may_be_same_process(other):
        return False
    if _comes_between(claim, other) or _comes_between(other, claim):
        return False
    if claim.joined or other.joined:
        is_older = _is_older(claim, other) or _is_older(other, claim)
        return _may_have_one_client_id(claim, other) and not is_older
    return _shows_same(claim, other) and (_begins_alike(claim, other) or _goes_on_alike(claim, other))


def may_be_relayed(claim: Claim, other: Claim) -> bool:
    """Whether two connections to different servers may be one, on both sides of a proxy that changes it.

    The proxy may open its connection only when the first request comes, however late that is.
    """
    if _comes_between(claim, other) or _comes_between(other, claim):
        return False
    if _begins_alike(claim, other) or _goes_on_alike(claim, other):
        return True
    return _keeps_offset(claim, other, claim.since - other.since)


def _may_have_one_client_id(claim: Claim, other: Claim) -> bool:
    return None in (claim.client_id, other.client_id) or claim.client_id == other.client_id


def _are_shown_from_first(claim: Claim, other: Claim) -> bool:
    """Whether the request that shows the identity first is known on both; it may be among lost bytes."""
    return claim.began_whole and other.began_whole


def _shows_same(claim: Claim, other: Claim) -> bool:
    """Whether the same request shows the identity first, as far as it is known."""
    if not _are_shown_from_first(claim, other):
        return _may_have_one_client_id(claim, other)
    mine, others = (
        (each.api_key, each.api_version, each.client_id, each.instance_id) for each in (claim, other)
    )
    return mine == others


def _begins_alike(claim: Claim, other: Claim) -> bool:
    """Whether both connections open, and show the identity first, at one offset."""
    opened, shown = claim.opened_at - other.opened_at, claim.since - other.since
    return max(abs(opened), abs(shown)) <= MOST_OFFSET and abs(opened - shown) <= SAME_OFFSET


def _goes_on_alike(claim: Claim, other: Claim) -> bool:
    """Whether later frames keep the offset of the openings, or that of the first frames."""
    opened, shown = claim.opened_at - other.opened_at, claim.since - other.since
    if not _are_shown_from_first(claim, other):
        return _keeps_offset(claim, other, opened)
    return abs(opened - shown) <= LONGEST_RESENDING and _keeps_offset(claim, other, opened, shown)


def _keeps_offset(claim: Claim, other: Claim, *offsets: int) -> bool:
    """Whether later frames show the identity at some offset. Until both have later frames, they may."""
    possible = [offset for offset in offsets if abs(offset) <= MOST_OFFSET]
    mine, others = (
        [at for at in (each.before_until, each.until) if at > each.since] for each in (claim, other)
    )
    later = [at - other_at for at in mine for other_at in others]
    is_alike = any(abs(each - offset) <= SAME_OFFSET for each in later for offset in possible)
    return bool(possible) and (is_alike or not later)


def _is_older(claim: Claim, other: Claim) -> bool:
    """Whether a connection was in use before the other one was opened; False if that was joined midway."""
    return not other.joined and claim.since < other.opened_at - MOST_OFFSET


def _comes_between(claim: Claim, other: Claim) -> bool:
    """Whether the latest frame of one connection comes between two consecutive frames of the other.

    It does not if these are further apart than those of the first connection: one between them may be lost.
    """
    is_between = other.before_until + MOST_OFFSET < claim.until < other.until - MOST_OFFSET
    apart, usual = other.until - other.before_until, claim.until - claim.before_until
    return is_between and apart < LOST_FRAME * usual
