"""Label values that come from the wire: made printable, short, and few.

A client chooses its own software name, so anybody could fill a Prometheus server with series. Here
each label, or tuple of labels, gets a fixed number of places; who comes later is counted as `other`.
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
    """Make any text a label value: `unknown` for none, cut to 64 characters, only printable ones.

    A lone surrogate would make the whole metrics page fail to encode, so it is replaced too.
    """
    if not text:
        return UNKNOWN
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:LONGEST]
    )


class BoundedLabels:
    """The first `limit` distinct tuples of label values; every later one becomes all `other`.

    A place once given is kept while the process lives, since a counter must never move to another
    series. `overflowed` is told how many observations were folded into `other`.
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
