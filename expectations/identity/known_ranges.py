"""Known ranges: which versions a server address is known to support when it refuses a request.

A connection that was told its ranges goes by its own. Any other goes by what the broker advertised to others
at the same address: the lists in force. A list that appears after another one was last made supersedes it, as
after an upgrade. Lists that are made in turns, by brokers behind one address, are all in force, and so is a
list that was in force when the connection was opened: it may lead to a broker that nobody asks any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from decoders.retention import KEPT_FOR
from expectations.identity.claim import NOT_LISTED, Claim

MINUTE: Final = 60 * 1_000_000_000
"""Nanoseconds after a refusal within which a response to the same version still explains it otherwise."""
Range = tuple[int, int]
"""The lowest and the highest version of an API; NOT_LISTED if a list does not have the API."""


class KnownRanges(NamedTuple):
    """What is known of one API at a server's address: its range in each list in force, latest list last.

    `by_others` is True if the lists were made to other connections. There is no range if nothing is known.
    """

    ranges: Sequence[Range]
    by_others: bool

    def include(self, version: int) -> bool:
        """Whether any range has a version."""
        return any(lowest <= version <= highest for lowest, highest in self.ranges)

    @property
    def lists_the_api(self) -> bool:
        """Whether any list has the API."""
        return any(each != NOT_LISTED for each in self.ranges)


def known_ranges(claim: Claim, others: Sequence[Claim]) -> KnownRanges:
    """Return what is known of the API that a claim's connection was refused, at that time."""
    assert claim.refused is not None
    if claim.refused.told is not None:
        return KnownRanges(_if_usable([claim.refused.told]), by_others=False)
    in_force, _ = _advertisements_of(claim, others)
    ranges = [each for made in in_force for each in ranges_of(made, claim.refused.api_key)]
    is_unreadable = any(not made.ranges for made in in_force)
    return KnownRanges([] if is_unreadable else _if_usable(ranges), by_others=True)


def is_refused_version(claim: Claim, others: Sequence[Claim]) -> bool | None:
    """Whether a request was refused for its version: the broker is known not to support it.

    None if it is not known, or if the broker has responded to that version although its lists lack it.
    """
    assert claim.refused is not None
    known = known_ranges(claim, others)
    if not known.ranges or claim.refused.api_version < 0:
        return None
    if known.include(claim.refused.api_version):
        return False
    if claim.refused.served and known.by_others and not claim.refused.by_error:
        return None
    is_explained = claim.refused.by_error or not known.by_others or not _is_answered(claim, others)
    return True if is_explained else None


def advertisements(others: Sequence[Claim], at: int) -> tuple[list[Claim], list[Claim]]:
    """Return the advertisements in force at a time, the latest last, and those that they supersede."""
    made = [each for each in others if each.ranges is not None and each.since <= at <= each.until + KEPT_FOR]
    superseded = [each for each in made if any(each.until < later.since for later in made)]
    in_force = [each for each in made if each not in superseded]
    return sorted(in_force, key=lambda each: each.until), superseded


def _advertisements_of(claim: Claim, others: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
    """Return the advertisements in force while a connection lived, the latest last, and the superseded ones.

    Connections to older brokers live on when the address has passed to newer ones. It is not known when a
    connection that was joined midway began, so no list is superseded for it.
    """
    in_force, superseded = advertisements(others, claim.since)
    earlier = superseded if claim.joined else advertisements(others, claim.opened_at)[0]
    still = [each for each in superseded if each in earlier]
    over = [each for each in superseded if each not in still]
    return sorted([*still, *in_force], key=lambda each: each.until), over


def ranges_of(made: Claim, api_key: int) -> list[Range]:
    """Return the ranges that an advertisement gives for an API."""
    listed = [(lowest, highest) for key, lowest, highest in made.ranges or () if key == api_key]
    return listed or [NOT_LISTED]


def first_response(others: Sequence[Claim], api_key: int, api_version: int) -> int | None:
    """Return when the server first responded to an API version, None if it never did."""
    times = (
        each.since
        for each in others
        if not each.connection
        and each.ranges is None
        and (each.api_key, each.api_version) == (api_key, api_version)
    )
    return next(times, None)


def _is_answered(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether the server responded to the refused version, other than under a list that was superseded."""
    assert claim.refused is not None
    key, version = claim.refused.request
    answered_at = first_response(others, key, version)
    if answered_at is None or answered_at > claim.since + MINUTE:
        return False
    in_force, superseded = _advertisements_of(claim, others)
    had_it = any(
        lowest <= version <= highest for made in superseded for lowest, highest in ranges_of(made, key)
    )
    return not had_it or any(made.since <= answered_at for made in in_force)


def _if_usable(ranges: Sequence[Range]) -> Sequence[Range]:
    """Return ranges, none if one contradicts itself."""
    return ranges if all(each == NOT_LISTED or each[0] <= each[1] for each in ranges) else []
