"""What is known of the identities of one bucket: the claims on each, in the order of the latest claims.

All that a stranger can repeat is bounded. A client that is refused again and again adds nothing after its
first refusals of an hour, and does not displace other clients that are refused.

The judge reads and changes them through the protocol `Identities`, which has two implementations.
`IdentityState` keeps all groups as objects; `check` uses it, and it defines what is right. The query keeps
groups as bytes and decodes those that a batch touches (`streaming/state/identities.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, Protocol

import msgspec

from expectations.identity.claim import Claim, Identity, IdentityKind
from expectations.identity.server_claim import is_made_once
from expectations.rules.base.rule import Level

GROUP_LIMIT: Final = 32_000
"""Identities that one bucket keeps; the one that was silent for longest makes room."""
CLAIM_LIMITS: Final[Mapping[IdentityKind, int]] = {
    kind: 1_024 if kind is IdentityKind.BROKER else 64 for kind in IdentityKind
}
"""Claims that are kept of one identity; the oldest that has left makes room.

For a listener the latest one makes room: a scanner with ever new addresses must not make ever new findings.
"""
ADVERTISEMENTS_LIMIT: Final = 16
"""Advertisements that are kept of one server; the one that was made longest ago makes room."""
ALIKE_LIMIT: Final = 8
"""Refusals of one request, of one client at one server, that are kept of each HOUR: the first ones."""
HOUR: Final = 3600 * 1_000_000_000
SETTLED_AFTER: Final = 2
"""Ticks after its latest change at which a claim is settled: a whole interval lies between two ticks."""


class KnownClaim(msgspec.Struct, array_like=True, gc=False):
    """A claim, the tick after which it changed last, and the rules that have judged it.

    `accused` holds the level at which each rule accused it.
    """

    claim: Claim
    changed_tick: int = 0
    accused: dict[str, Level] = {}
    judged: list[str] = []


class Group(msgspec.Struct, array_like=True, gc=False):
    """What is known of one identity. `latest_at` is the capture time of its latest claim.

    `due_tick` is the next tick at which a claim becomes settled, 0 if all claims are settled and judged.
    `has_forgotten` means that a claim was forgotten that might speak for a client or a broker.
    """

    known: list[KnownClaim] = []
    latest_at: int = 0
    due_tick: int = 0
    has_forgotten: bool = False

    def add(
        self, claims: Iterable[Claim], tick: int, limits: Mapping[IdentityKind, int] = CLAIM_LIMITS
    ) -> list[KnownClaim]:
        """Add claims after a tick, and later snapshots of known ones; return those forgotten for room."""
        known = {each.claim.key: each for each in self.known}
        is_unsettled = self.due_tick > 0
        for claim in claims:
            self.latest_at = max(self.latest_at, claim.until)
            if claim.key in known:
                is_unsettled |= self._renew(known[claim.key], claim, tick)
            else:
                known[claim.key] = KnownClaim(claim, tick)
                is_unsettled = True
        self.known = list(known.values())
        forgotten = self._make_room(limits)
        if is_unsettled:
            self._schedule(tick)
        return forgotten

    def settle(self, tick: int) -> None:
        """Schedule the next judgement after that of a tick: none if every claim was settled."""
        if all(each.changed_tick <= tick - SETTLED_AFTER for each in self.known):
            self.due_tick = 0
        else:
            self._schedule(tick)

    def new_advertisements(self, claims: Iterable[Claim]) -> int:
        """Count the lists of ranges that a server advertises and has not advertised before.

        The first list that is known of a server does not count. Call it before `add`.
        """
        known = {each.claim.key for each in self.known if each.claim.ranges is not None}
        added = {claim.key for claim in claims if claim.ranges is not None} - known
        return len(added) if known else max(len(added) - 1, 0)

    def is_silent(self, since: int) -> bool:
        """Whether the latest claim was captured before `since`, and all are judged but not forgotten.

        Capture time may run ahead of the ticks: a query that catches up reads days within minutes.
        """
        return 0 < self.latest_at < since and not self.due_tick

    def forget_silent(self) -> None:
        """Forget what was silent for long: all but what a server's connections claim once and never again."""
        self.known = [each for each in self.known if is_made_once(each.claim)]
        self.latest_at = 0

    def _schedule(self, tick: int) -> None:
        settled = min(each.changed_tick for each in self.known) + SETTLED_AFTER
        self.due_tick = max(settled, tick + 1)

    def _renew(self, known: KnownClaim, claim: Claim, tick: int) -> bool:
        """Merge a snapshot; return whether it unsettles the claim. A server that shows the same does not."""
        before, known.claim = known.claim, known.claim.merged(claim)
        is_news = claim.connection and known.claim != before
        is_unsettled = is_news or known.claim.since < before.since
        if is_unsettled:
            known.changed_tick = tick
        return is_unsettled

    def _make_room(self, limits: Mapping[IdentityKind, int]) -> list[KnownClaim]:
        if len(self.known) <= ALIKE_LIMIT:  # the smallest limit
            return []
        places = _places_among_alike(self.known)
        self.known = [each for each in self.known if places.get(id(each), 0) < ALIKE_LIMIT]
        advertised = [each for each in self.known if each.claim.ranges is not None]
        oldest = sorted(advertised, key=lambda each: each.claim.until)
        forgotten = oldest[: max(len(oldest) - ADVERTISEMENTS_LIMIT, 0)]
        surplus = len(self.known) - len(forgotten) - limits[self.known[0].claim.identity.kind]
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
    """Whether a claim may clear somebody. A refusal cannot, nor can a connection that is not Kafka."""
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


class Identities(Protocol):
    """The identities of one bucket.

    `clock` is the latest capture time, in nanoseconds, `tick` counts the ticks that found a claim unsettled.
    """

    clock: int
    tick: int

    def claimed(
        self, claims: Iterable[Claim], patient: Set[IdentityKind]
    ) -> Iterator[tuple[Group, list[Claim]]]:
        """Yield each identity that is claimed now, to be changed in place, with its claims.

        It becomes the latest. A claim that no rule judges yet may be added without being yielded: the only
        claim of a client's identity, and any claim of a `patient` kind, whose rules all wait.
        """

    def surplus(self) -> Iterator[Group]:
        """Remove and yield what is above GROUP_LIMIT, beginning with what was claimed longest ago."""

    def is_settled(self) -> bool:
        """Whether no identity has a tick to come at which it is due."""

    def due(self) -> Iterator[Group]:
        """Yield the identities that are due at `tick`, in their order, to be changed in place."""

    def forget_silent(self, since: int) -> None:
        """Forget what was last claimed before `since`, in nanoseconds, and is settled."""


class IdentityState(msgspec.Struct):
    """The `Identities` of one bucket as objects, the latest at the end."""

    groups: dict[Identity, Group] = {}
    clock: int = 0
    tick: int = 0

    def claimed(
        self, claims: Iterable[Claim], patient: Set[IdentityKind]
    ) -> Iterator[tuple[Group, list[Claim]]]:
        claimed: dict[Identity, list[Claim]] = {}
        for claim in claims:
            claimed.setdefault(claim.identity, []).append(claim)
            self.clock = max(self.clock, claim.until)
        for identity, added in claimed.items():
            group = self.groups[identity] = self.groups.pop(identity, Group())
            yield group, added

    def surplus(self) -> Iterator[Group]:
        while len(self.groups) > GROUP_LIMIT:
            yield self.groups.pop(next(iter(self.groups)))

    def is_settled(self) -> bool:
        return not any(group.due_tick for group in self.groups.values())

    def due(self) -> Iterator[Group]:
        return (group for group in self.groups.values() if 0 < group.due_tick <= self.tick)

    def forget_silent(self, since: int) -> None:
        for name, group in list(self.groups.items()):
            if group.is_silent(since):
                group.forget_silent()
                if not group.known:
                    del self.groups[name]
