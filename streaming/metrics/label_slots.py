"""Slots for label values that clients choose: those that are seen most and longest keep them.

Each minute adds to the weight of a value the logarithm of how often it was seen at once. So time counts for
more than numbers: a thousand connections for a minute weigh as much as one for ten minutes. Weights halve in
a day. Where slots are short, a value that was seen for some minutes takes the slot of one that weighs less
than half as much. A burst of invented values displaces nothing that was seen for long, and invented values
that are gone lose their slots to those that stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MINUTE = 60.0
HALF_LIFE = 86_400.0
"""Seconds after which what was seen weighs half as much."""
TAKEOVER = 2.0
"""How many times the weight of a slot's holder takes the slot. Above 1, lest equals take turns."""
ESTABLISHED = 10.0
"""The least weight that takes a slot from another: of one connection for ten minutes."""
LEAVES_AFTER = 3600.0
"""Seconds for which a value without a slot keeps its series, unchanged: longer than any scrape interval."""
WAITING_PER_SLOT = 10
"""Values without a slot that are remembered for each slot."""


@dataclass(slots=True)
class _Weight:
    """What a value was seen until now, and in the current minute."""

    total: float = 0.0
    now: float = 0.0

    def see(self, count: float) -> None:
        self.now = max(self.now, math.log2(1 + count))

    @property
    def sum(self) -> float:
        return self.total + self.now


class LabelSlots:
    """A limited number of slots. A value has a slot at once if one is free, else it waits for one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[str, _Weight] = {}
        self._waiting: dict[str, _Weight] = {}
        self._leaving: dict[str, float] = {}
        """Values that lost their slot, and when."""
        self._turned_at: float | None = None

    def see(self, value: str, count: float = 1) -> bool:
        """Note that a value was seen `count` times at once, and return whether it has a slot."""
        if value not in self._held and len(self._held) < self._limit:
            self._held[value] = self._waiting.pop(value, _Weight())
            self._leaving.pop(value, None)
        has_slot = value in self._held
        (self._held if has_slot else self._waiting).setdefault(value, _Weight()).see(count)
        if len(self._waiting) > 2 * WAITING_PER_SLOT * self._limit:
            self._forget_light()
        return has_slot

    def reassign(self, now: float) -> list[str]:
        """Give slots to heavier values once a minute. Returns the values whose series must go now.

        `now` is in seconds of a steady clock. Call it between batches, never within one.
        """
        if self._turned_at is None:
            self._turned_at = now
        if now - self._turned_at < MINUTE:
            return []
        self._age(0.5 ** ((now - self._turned_at) / HALF_LIFE))
        self._turned_at = now
        gone = [value for value, since in self._leaving.items() if now - since >= LEAVES_AFTER]
        for value in gone:
            del self._leaving[value]
        self._displace(now)
        return gone

    def _age(self, factor: float) -> None:
        for weights in (self._held, self._waiting):
            for weight in weights.values():
                weight.total, weight.now = weight.total * factor + weight.now, 0.0

    def _displace(self, now: float) -> None:
        """Give slots of light values to heavier ones; as many series may leave as there are slots."""
        lightest_first = sorted(self._held, key=lambda value: self._held[value].sum)
        heaviest_first = sorted(self._waiting, key=lambda value: self._waiting[value].sum, reverse=True)
        for holder, challenger in zip(lightest_first, heaviest_first, strict=False):
            weight = self._waiting[challenger].sum
            is_heavy = weight >= max(ESTABLISHED, TAKEOVER * self._held[holder].sum)
            if not is_heavy or len(self._leaving) >= self._limit:
                return
            self._waiting[holder] = self._held.pop(holder)
            self._held[challenger] = self._waiting.pop(challenger)
            self._leaving.pop(challenger, None)
            self._leaving[holder] = now

    def _forget_light(self) -> None:
        heaviest_first = sorted(self._waiting, key=lambda value: self._waiting[value].sum, reverse=True)
        for value in heaviest_first[WAITING_PER_SLOT * self._limit :]:
            del self._waiting[value]
