"""Values that many connections of a bucket share, stored once: brokers, version ranges, client software.

A table holds each value as msgpack. A connection's layout refers to a value by its place in the table.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

Value = TypeVar("Value")
_ENCODER = msgspec.msgpack.Encoder()


class SharedValues(Generic[Value]):
    """Values of one type by their place. A value is decoded once, so equal places give the same object."""

    def __init__(self, kind: Any, stored: list[bytes]) -> None:
        self.stored = stored
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._decoded: dict[int, Value] = {}
        self._places_by_object: dict[int, int] = {}
        self._places = {value: place for place, value in enumerate(stored)}

    def __len__(self) -> int:
        return len(self.stored)

    def value(self, place: int) -> Value:
        """Return the value at a place."""
        if place not in self._decoded:
            value = self._decoded[place] = self._decoder.decode(self.stored[place])
            self._places_by_object[id(value)] = place
        return self._decoded[place]

    def place(self, value: Value) -> int:
        """Return the place of a value, a new one if it has none."""
        # Most values were decoded here, and comparing object identities is cheaper than encoding.
        decoded = self._places_by_object.get(id(value))
        if decoded is not None:
            return decoded
        encoded = _ENCODER.encode(value)
        place = self._places.setdefault(encoded, len(self.stored))
        if place == len(self.stored):
            self.stored.append(encoded)
        return place
