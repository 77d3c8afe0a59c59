"""The labels of client software: which names and versions have series of their own.

Clients choose both, so each is bounded: names by a number of slots, and the versions of each name by slots of
their own, so that invented versions of a name cost only that name. Only names and versions that brokers
accept take slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from expectations.conversation.software_pattern import IN_TEXT
from streaming.metrics.label_slots import LabelSlots
from streaming.metrics.label_values import OTHER, UNKNOWN, label_value

INVALID = "invalid"
"""Stands for names and versions that KIP-511 forbids."""
FORMER = "(former)"
"""Stands for software that has lost its series. No valid name looks like this."""
RESERVED = frozenset({UNKNOWN, OTHER, INVALID})
"""Names that nobody may give himself: alerts treat `unknown` in a way of its own."""
NAMES_PER_VERSION = 10
"""How many times more names there may be than versions of each."""

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
        """Return the labels to count `amount` observations under; `at_once` are made at the same time."""
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
        """Give slots to software that is seen more. Yields who loses all series: names, or versions of one.

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
    return label_value(text) if IN_TEXT.fullmatch(text) and text not in RESERVED else INVALID
