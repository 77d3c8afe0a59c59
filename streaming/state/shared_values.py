"""Facts that many connections of a bucket share, kept once: who listens, what it offers, what software asks.

A table holds each value as msgpack. A connection's own layout names its places.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

Shared = TypeVar("Shared")

_ENCODER = msgspec.msgpack.Encoder()


class Table(Generic[Shared]):
    """Values of one type by their place; a value that was read is the same object ever after."""

    def __init__(self, kind: Any, stored: list[bytes]) -> None:
        self.stored = stored
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._read: dict[int, Shared] = {}
        self._places_read: dict[int, int] = {}
        self._places = {value: place for place, value in enumerate(stored)}

    def __len__(self) -> int:
        return len(self.stored)

    def value(self, place: int) -> Shared:
        """Give the value at a place."""
        if place not in self._read:
            value = self._read[place] = self._decoder.decode(self.stored[place])
            self._places_read[id(value)] = place
        return self._read[place]

    def place(self, value: Shared) -> int:
        """Give the place of a value, a new one if it has none."""
        # Most are those that were read, and to compare objects is cheaper than what they say.
        read = self._places_read.get(id(value))
        if read is not None:
            return read
        encoded = _ENCODER.encode(value)
        place = self._places.setdefault(encoded, len(self.stored))
        if place == len(self.stored):
            self.stored.append(encoded)
        return place
