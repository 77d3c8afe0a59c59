"""Label values that come from the wire: made printable and short, and bounded in number.

A client chooses its own software name, so any client could fill a Prometheus server with series. Each label
therefore has a limited number of values; the others are counted as `other`. There are two ways to choose the
values that get series:

- `BoundedLabels` admits the first ones and keeps them.
- `SoftwareSlots` admits those that are seen most and longest. Names of client software share slots
  (`LabelSlots`), and the versions of each name have slots of their own, so invented versions of a name cost
  only that name. Only names and versions that brokers accept take slots.

A value of `LabelSlots` is in one of these states:

| state | has a series | becomes |
|---|---|---|
| unknown | no | held when it is seen and a slot is free, otherwise waiting |
| waiting | no | held once a minute if it outweighs a holder TAKEOVER times; unknown if too many wait |
| held | yes | waiting and leaving when a heavier value takes its slot |
| leaving | yes, unchanged | held if it wins a slot again; its series is removed after LEAVES_AFTER |

Each minute adds to the weight of a value the logarithm of how often it was seen at once. So time counts for
more than numbers: a thousand connections for a minute weigh as much as one for ten minutes. Weights halve in
a day. A burst of invented values displaces nothing that was seen for long, and invented values that are gone
lose their slots to those that stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from expectations.conversation.texts import SOFTWARE_IN_TEXT

LONGEST = 64
"""Characters of a label value. Kafka sets no limit; real software names have fewer than 40."""
LABEL_LIMIT = 100
"""Distinct values that a label from the wire may have before the rest become `other`."""
UNKNOWN = "unknown"
OTHER = "other"


def label_value(text: str | None) -> str:
    """Make a label value of any text: `unknown` for none, at most 64 characters, all printable.

    A lone surrogate is replaced, too: it would make the whole metrics page fail to encode.
    """
    if not text:
        return UNKNOWN
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:LONGEST]
    )


class BoundedLabels:
    """The first `limit` distinct values of a label; every later one becomes `other`.

    An admitted value stays admitted while the process runs, since a counter must never move to another
    series. `overflowed` is called with the number of observations that are counted as `other`.
    """

    def __init__(self, limit: int, overflowed: Callable[[float], None]) -> None:
        self._limit = limit
        self._overflowed = overflowed
        self._admitted: set[str] = set()

    def admit(self, value: str | None, amount: float) -> str:
        """Return the label value to count `amount` observations under."""
        label = label_value(value)
        if label not in self._admitted and len(self._admitted) >= self._limit:
            self._overflowed(amount)
            return OTHER
        self._admitted.add(label)
        return label


MINUTE = 60.0
HALF_LIFE = 86_400.0
"""Seconds in which weights halve."""
TAKEOVER = 2.0
"""A value must outweigh the holder of a slot this many times: above 1, so that equals do not take turns."""
ESTABLISHED = 10.0
"""The least weight that takes a slot from another value: that of one connection for ten minutes."""
LEAVES_AFTER = 3600.0
"""Seconds for which a value without a slot keeps its series, unchanged: longer than any scrape interval."""
WAITING_PER_SLOT = 10
"""Values without a slot that are remembered for each slot."""


@dataclass(slots=True)
class _Weight:
    """The weight of a value from all minutes before, and from the current one."""

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
        """Give slots to heavier values once a minute. Returns the values whose series must be removed now.

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
        """Give slots of light values to heavier ones, while fewer values are leaving than there are slots."""
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


INVALID = "invalid"
"""Stands for names and versions that KIP-511 forbids."""
FORMER = "(former)"
"""Stands for software that has lost its series. The parentheses make it an invalid name."""
RESERVED = frozenset({UNKNOWN, OTHER, INVALID})
"""Names that count as invalid if a client sends them: alerts treat `unknown` specially."""
NAMES_PER_VERSION = 10
"""There may be this many times more names than versions of each."""

SoftwareLabels = tuple[str, str]
"""The labels for the name and the version."""


class SoftwareSlots:
    """Chooses the labels of client software.

    `limit` bounds the names; `overflowed` is called with the number of observations whose name or version is
    counted as `other`.
    """

    def __init__(self, limit: int, overflowed: Callable[[float], None]) -> None:
        self._names = LabelSlots(limit)
        self._versions: dict[str, LabelSlots] = {}
        self._version_limit = max(1, limit // NAMES_PER_VERSION)
        self._overflowed = overflowed

    def admit(
        self, name: str | None, version: str | None, *, amount: float = 1, at_once: float = 1
    ) -> SoftwareLabels:
        """Return the labels to count `amount` observations under; `at_once` of them were simultaneous."""
        shown = _shown(name)
        if shown == INVALID:
            return INVALID, INVALID
        if shown != UNKNOWN and not self._names.see(shown, at_once):
            self._overflowed(amount)
            return OTHER, OTHER
        version = _shown(version)
        if version in RESERVED:
            return shown, version
        slots = self._versions.setdefault(shown, LabelSlots(self._version_limit))
        if not slots.see(version, at_once):
            self._overflowed(amount)
            return shown, OTHER
        return shown, version

    def reassign(self, now: float) -> Iterator[tuple[str, str | None]]:
        """Give slots to software that is seen more. Yields the names and versions that lose their series.

        The version is None if the name loses the series of all its versions.
        """
        for name, slots in self._versions.items():
            for version in slots.reassign(now):
                yield name, version
        for name in self._names.reassign(now):
            self._versions.pop(name, None)
            yield name, None


def _shown(text: str | None) -> str:
    if not text:
        return UNKNOWN
    return label_value(text) if SOFTWARE_IN_TEXT.fullmatch(text) and text not in RESERVED else INVALID
