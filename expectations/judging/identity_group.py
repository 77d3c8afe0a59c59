"""What is known of one identity: its claims, how many are kept, and which are forgotten first.

Whatever a stranger can repeat is bounded. A client that is refused again and again adds nothing after its
first refusals of an hour, and it does not displace other clients that are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.server_claim import is_made_once
from expectations.rules.base.rule import Level

CLAIM_LIMITS: Final = {
    IdentityKind.INSTANCE: 64,
    IdentityKind.MEMBER: 64,
    IdentityKind.CLIENT: 64,
    IdentityKind.BROKER: 1_024,
    IdentityKind.LISTENER: 64,
    IdentityKind.ROUTE: 64,
    IdentityKind.MEMBERSHIP: 64,
}
"""Claims that are kept of one identity; the oldest that has left makes room.

For a listener the latest one makes room: a scanner with ever new addresses must not make ever new findings.
"""
ADVERTISEMENTS_LIMIT: Final = 16
"""Advertisements that are kept of one server; the one that was made longest ago makes room."""
ALIKE_LIMIT: Final = 8
"""Refusals of one request, of one client at one server, that are kept of each HOUR: the first ones."""
HOUR: Final = 3600 * 1_000_000_000


class KnownClaim(msgspec.Struct, array_like=True):
    """A claim, the ticks since it changed, and the rules that have judged it.

    `accused` holds the level at which each rule accused it.
    """

    claim: Claim
    age: int = 0
    accused: dict[str, Level] = {}
    judged: list[str] = []


class Group(msgspec.Struct, array_like=True):
    """What is known of one identity. `latest_at` is the capture time of its latest claim.

    `has_forgotten` means that a claim was forgotten that might speak for a client or a broker.
    """

    known: list[KnownClaim] = []
    latest_at: int = 0
    is_unsettled: bool = True
    has_forgotten: bool = False

    def add(self, claims: Iterable[Claim]) -> list[KnownClaim]:
        """Add claims and later snapshots of known ones. Returns those that were forgotten for room."""
        known = {each.claim.key: each for each in self.known}
        for claim in claims:
            self.latest_at = max(self.latest_at, claim.until)
            if claim.key in known:
                self._renew(known[claim.key], claim)
            else:
                known[claim.key] = KnownClaim(claim)
                self.is_unsettled = True
        self.known = list(known.values())
        return self._make_room()

    def new_advertisements(self, claims: Iterable[Claim]) -> int:
        """Return how many lists of ranges a server advertises that it has not advertised before.

        The first list that is known of a server is none of them. Call it before `add`.
        """
        known = {each.claim.key for each in self.known if each.claim.ranges is not None}
        added = {claim.key for claim in claims if claim.ranges is not None} - known
        return len(added) if known else max(len(added) - 1, 0)

    def is_silent(self, since: int) -> bool:
        """Whether the latest claim was captured before `since`, and has not been forgotten."""
        return 0 < self.latest_at < since

    def forget_silent(self) -> None:
        """Forget what was silent for long: all but what a server's connections claim once and never again."""
        self.known = [each for each in self.known if is_made_once(each.claim)]
        self.latest_at = 0

    def _renew(self, known: KnownClaim, claim: Claim) -> None:
        """Merge a snapshot. That a server goes on showing the same accuses nobody and unsettles nothing."""
        before, known.claim = known.claim, known.claim.merged(claim)
        is_news = claim.connection and known.claim != before
        if is_news or known.claim.since < before.since:
            known.age, self.is_unsettled = 0, True

    def _make_room(self) -> list[KnownClaim]:
        if len(self.known) <= ALIKE_LIMIT:  # the smallest limit
            return []
        places = _places_among_alike(self.known)
        self.known = [each for each in self.known if places.get(id(each), 0) < ALIKE_LIMIT]
        advertised = [each for each in self.known if each.claim.ranges is not None]
        oldest = sorted(advertised, key=lambda each: each.claim.until)
        forgotten = oldest[: max(len(oldest) - ADVERTISEMENTS_LIMIT, 0)]
        surplus = len(self.known) - len(forgotten) - CLAIM_LIMITS[self.known[0].claim.identity.kind]
        if surplus > 0:
            others = [each for each in self.known if each not in forgotten]
            others.sort(key=lambda each: _how_soon_forgotten(each, places.get(id(each), 0)))
            forgotten += others[:surplus]
        if forgotten:
            left = {id(each) for each in forgotten}
            self.known = [each for each in self.known if id(each) not in left]
            self.has_forgotten |= any(_may_clear(each.claim) for each in forgotten)
        return forgotten


def _may_clear(claim: Claim) -> bool:
    """Whether a claim may speak for somebody: no refusal does, nor what got no response."""
    return claim.refusal is None and claim.foreign is None


def _places_among_alike(known: Iterable[KnownClaim]) -> dict[int, int]:
    """Return, by the `id` of each refusal, how many refusals of an hour that are alike come before it."""
    refusals = sorted((each for each in known if each.claim.refusal), key=lambda each: each.claim.order)
    counts, places = Counter[object](), dict[int, int]()
    for each in refusals:
        key = each.claim.refusal, each.claim.since // HOUR
        places[id(each)] = counts[key]
        counts[key] += 1
    return places


def _how_soon_forgotten(known: KnownClaim, place: int) -> tuple[bool, bool, int, bool, int]:
    """Order claims by how soon they may be forgotten: what has left first, what speaks for others last.

    Of refusals, those that repeat others go first, and then those that were judged.
    """
    claim = known.claim
    if claim.refusal is None:
        until = claim.until if claim.foreign is None else -claim.until
        return not claim.has_left, not claim.connection, 0, False, until
    is_judged = bool(known.accused or known.judged)
    return False, False, -place, not is_judged, claim.until if is_judged else -claim.until
