"""Label values that come from the wire: made printable, short, and few.

A client chooses its own software name, so any client could fill a Prometheus server with series. Here
each label, or tuple of labels, has a limited number of values; further ones are counted as `other`.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 64
"""Characters of a label value. Kafka sets no limit; real software names have fewer than 40."""
LABEL_LIMIT = 100
"""Distinct values that a label from the wire may have before the rest become `other`."""
UNKNOWN = "unknown"
OTHER = "other"


def label_value(text: str | None) -> str:
    """Make a label value of any text: `unknown` for none, at most 64 characters, all printable.

    A lone surrogate is replaced, too: the whole metrics page would fail to encode.
    """
    if not text:
        return UNKNOWN
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:LONGEST]
    )


class BoundedLabels:
    """The first `limit` distinct tuples of label values; every later one becomes all `other`.

    An admitted tuple stays admitted while the process runs, since a counter must never move to another
    series. `overflowed` is called with the number of observations that are counted as `other`.
    """

    def __init__(self, limit: int, overflowed: Callable[[float], None]) -> None:
        self._limit = limit
        self._overflowed = overflowed
        self._admitted: set[tuple[str, ...]] = set()

    def admit(self, *values: str | None, amount: float = 1) -> tuple[str, ...]:
        """Return the label values to count `amount` observations under."""
        labels = tuple(map(label_value, values))
        if labels in self._admitted:
            return labels
        if len(self._admitted) < self._limit:
            self._admitted.add(labels)
            return labels
        self._overflowed(amount)
        return (OTHER,) * len(labels)
