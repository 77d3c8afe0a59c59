"""msgpack with gaps: what openings of one form have in common, with gaps for a connection's own values.

Gaps are found by comparing: a probe has values that are found nowhere else, so wherever one of them stands in
what was made of the probe, every connection of its form has its own value in that place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from expectations.conversation.occurrence import Evidence

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Any])


class Slot(NamedTuple):
    """A place in the values of an opening, where it stands for the value."""

    place: int


class Text(NamedTuple):
    """A text made of values, each by its place, and of what stands between them."""

    parts: tuple[str | int, ...]

    def of(self, values: Sequence[Any]) -> str:
        """Make the text of other values."""
        return "".join(part if isinstance(part, str) else values[part] for part in self.parts)


class Difference(NamedTuple):
    """The difference of two times, each by its place."""

    later: int
    earlier: int

    def of(self, values: Sequence[Any]) -> int:
        """Subtract other times."""
        difference: int = values[self.later] - values[self.earlier]
        return difference


class Constant(NamedTuple):
    """A value that all openings of a form have."""

    value: object

    def of(self, values: Sequence[Any]) -> object:
        """Return it."""
        return self.value


Made = Text | Difference | Constant
"""How a value follows from others."""


class Gapped:
    """Bytes with gaps. `slots` are the places of the values in the gaps, in order."""

    __slots__ = ("_constant", "_format", "slots")

    def __init__(self, pieces: Sequence[bytes | Slot]) -> None:
        constant = [b""]
        for piece in pieces:
            if isinstance(piece, Slot):
                constant.append(b"")
            else:
                constant[-1] += piece
        self._constant = tuple(constant)
        self._format = b"%b".join(piece.replace(b"%", b"%%") for piece in constant)
        self.slots = tuple(piece.place for piece in pieces if isinstance(piece, Slot))

    def filled(self, values: Sequence[object]) -> bytes:
        """Return the bytes with the values of an opening in the gaps."""
        encode = _ENCODER.encode
        return self._format % tuple([encode(values[slot]) for slot in self.slots])

    def read(self, filled: bytes) -> dict[int, Any] | None:
        """Return the values by slot that fill these gaps to given bytes, None if none do.

        The bytes are msgpack as this encoder writes it.
        """
        first, *others = self._constant
        found: dict[int, bytes] = {}
        at = len(first)
        for slot, constant in zip(self.slots, others, strict=True):
            value = found.get(slot)
            if value is None:
                size = _size(filled, at)
                value = found[slot] = filled[at : at + size]
                if not size or not filled.startswith(constant, at + size):
                    return None
            at += len(value) + len(constant)
        if self._format % tuple([found[slot] for slot in self.slots]) != filled:
            return None
        header = _ENCODER.encode([None] * len(found))[: -len(found) or None]
        return dict(zip(found, _DECODER.decode(b"".join([header, *found.values()])), strict=True))


class Gaps:
    """Finds the values of a probe in what was made of it.

    `values` are those of the probe, by slot; `times` are the slots of the times.
    """

    def __init__(self, values: Sequence[object], times: Sequence[int]) -> None:
        self._values = list(values)
        self._made: dict[Made, int] = {}
        self._slots = {_key(value): slot for slot, value in enumerate(values) if value is not None}
        self._differences = {
            self._time(later) - self._time(earlier): Difference(later, earlier)
            for later in times
            for earlier in times
            if self._time(later) > self._time(earlier)
        }
        texts = sorted((value for value in values if isinstance(value, str)), key=len, reverse=True)
        self._texts = re.compile("|".join(map(re.escape, texts)))

    @property
    def made(self) -> tuple[Made, ...]:
        """Values that follow from those given. Their slots are the ones behind those."""
        return tuple(self._made)

    def slot(self, value: object) -> int:
        """Return the slot of a value, one of its own if it is none of the probe's."""
        slot = self._slots.get(_key(value))
        return self._make(Constant(value)) if slot is None else slot

    def gapped(self, *trees: object) -> Gapped:
        """Encode values of msgpack's types one after the other, with gaps for what is the probe's own."""
        pieces: list[bytes | Slot] = []
        for tree in trees:
            self._write(tree, pieces)
        return Gapped(pieces)

    def _write(self, tree: Any, pieces: list[bytes | Slot]) -> None:
        slot = tree if isinstance(tree, Slot) else self._gap(tree)
        if slot is not None:
            pieces.append(slot)
        elif isinstance(tree, list | tuple):
            pieces.append(_ENCODER.encode([None] * len(tree))[: -len(tree) or None])
            for each in tree:
                self._write(each, pieces)
        elif isinstance(tree, dict):
            pieces.append(_header_of_map(len(tree)))
            for name, value in tree.items():
                self._write(name, pieces)
                self._write(value, pieces)
        else:
            pieces.append(_ENCODER.encode(tree))

    def _gap(self, tree: Any) -> Slot | None:
        known = self._slots.get(_key(tree))
        if known is not None:
            return Slot(known)
        if isinstance(tree, int) and tree in self._differences:
            return Slot(self._make(self._differences[tree]))
        if isinstance(tree, str) and self._texts.search(tree):
            return Slot(self._make(Text(self._parts(tree))))
        return None

    def _parts(self, text: str) -> tuple[str | int, ...]:
        parts: list[str | int] = []
        end = 0
        for found in self._texts.finditer(text):
            parts += text[end : found.start()], self._slots[_key(found.group())]
            end = found.end()
        return (*parts, text[end:])

    def _make(self, made: Made) -> int:
        return self._made.setdefault(made, len(self._values) + len(self._made))

    def _time(self, slot: int) -> int:
        value = self._values[slot]
        assert isinstance(value, int)
        return value


def _key(value: Any) -> object:
    """Return what tells values apart, whatever they are built of. Evidence is written as an array."""
    if isinstance(value, Evidence):
        return Evidence, msgspec.structs.astuple(value)
    if isinstance(value, list) and len(value) == len(Evidence.__struct_fields__):
        return (Evidence, tuple(value)) if all(map(_is_simple, value)) else None
    return (type(value), value) if _is_simple(value) and value is not None else None


def _sizes() -> tuple[int, ...]:
    """Return the size of a value of msgpack by its first byte; 0 where that alone does not tell it."""
    sizes = [0] * 256
    for first in [*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3]:
        sizes[first] = 1
    for length in range(32):
        sizes[0xA0 + length] = 1 + length
    for power in range(4):
        sizes[0xCC + power] = sizes[0xD0 + power] = 1 + (1 << power)
    return tuple(sizes)


_SIZES: Final = _sizes()
_LENGTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""How many bytes tell the length of bytes and of longer texts, by the first byte."""


def _size(packed: bytes, at: int) -> int:
    """Return the size of the value at a place, an integer, a text, bytes or a short array; 0 of another."""
    first = packed[at] if at < len(packed) else 0xC1
    size = _SIZES[first]
    if size:
        return size
    width = _LENGTHS.get(first)
    if width:
        return 1 + width + int.from_bytes(packed[at + 1 : at + 1 + width])
    if first & 0xF0 != 0x90:
        return 0
    end = at + 1
    for _ in range(first & 0x0F):
        inner = _size(packed, end)
        if not inner:
            return 0
        end += inner
    return end - at


def _is_simple(value: object) -> bool:
    return value is None or isinstance(value, int | str | bytes)


def _header_of_map(size: int) -> bytes:
    """Return what msgpack writes before the entries of a map."""
    encoded: bytes = _ENCODER.encode(dict.fromkeys(range(size)))
    entries = sum(len(_ENCODER.encode(number)) + 1 for number in range(size))
    return encoded[: len(encoded) - entries]
