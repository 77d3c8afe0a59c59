"""Traced values: numbers that record how they are compared, and stand-ins for UUIDs and texts."""

from __future__ import annotations

import hashlib
import inspect
import operator
from collections.abc import Callable
from numbers import Number
from typing import Any, Final, NamedTuple

from expectations.conversation.observation import ConnectionKey, Evidence
from expectations.judging.canonical import UUID_PREFIX
from expectations.judging.cells import ZERO, Linear

_HIDDEN: Final = 8
"""Bytes that a stand-in has of the secret's digest."""
GUARDS: Final = ("eq", "ne", "lt", "le")
"""The comparisons of guards, in the order of their numbers."""
_OPPOSITES: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_MIRRORED: Final = {"gt": "lt", "ge": "le"}
"""Comparisons that are recorded as others, of swapped values."""


class NotFollowedError(Exception):
    """What comes of an observation cannot be said in terms of cells."""


class Guard(NamedTuple):
    """A comparison of two values that must hold, by its number in GUARDS."""

    comparison: int
    left: Linear
    right: Linear


class Trace:
    """The guards of one observation."""

    def __init__(self) -> None:
        self.guards: dict[Guard, None] = {}

    def add(self, comparison: str, left: int, right: int, *, outcome: bool) -> None:
        """Record a comparison, unless its outcome is certain."""
        if linear_of(left) == linear_of(right):
            return
        is_positive = isinstance(left, TracedNumber) and left.is_positive
        if is_positive and not isinstance(right, TracedNumber) and right <= 0:
            return
        holds = comparison if outcome else _OPPOSITES[comparison]
        if holds in _MIRRORED:
            holds, left, right = _MIRRORED[holds], right, left
        self.guards[Guard(GUARDS.index(holds), linear_of(left), linear_of(right))] = None

    def constant(self, value: object) -> int:
        """Return a traced number as part of the facts, with a guard that it equals this value.

        Raises NotFollowedError for any other value, and for a positive number, which belongs in a register.
        """
        if not isinstance(value, TracedNumber) or plain(value) > 0:
            raise NotFollowedError
        self.add("eq", value, plain(value), outcome=True)
        return plain(value)


class TracedNumber(int):
    """A number that knows where it comes from.

    Comparisons are recorded, sums and differences followed. All else that an `int` can do is refused, as it
    would make a constant without a guard. What reads an `int` unasked, as `range` does, goes unnoticed.
    """

    trace: Trace
    linear: Linear
    is_positive: bool

    @classmethod
    def of(cls, value: int, linear: Linear, trace: Trace, *, is_positive: bool = False) -> TracedNumber:
        """Make a number. `is_positive` says that it is positive on every connection."""
        made = cls(value)
        made.linear, made.trace, made.is_positive = linear, trace, is_positive
        return made

    def __hash__(self) -> int:
        # Equal for all: a look-up then compares, and the comparison is recorded.
        return 1

    def __bool__(self) -> bool:
        outcome = plain(self) != 0
        self.trace.add("ne", self, 0, outcome=outcome)
        return outcome

    def __add__(self, other: int) -> TracedNumber:
        mine, others = self.linear, linear_of(other)
        if others.minus != ZERO or ZERO not in (mine.plus, others.plus):
            raise NotFollowedError
        plus = others.plus if mine.plus == ZERO else mine.plus
        linear = Linear(plus, mine.minus, mine.constant + others.constant)
        is_positive = self.is_positive and not isinstance(other, TracedNumber) and other >= 0
        return TracedNumber.of(plain(self) + plain(other), linear, self.trace, is_positive=is_positive)

    __radd__ = __add__

    def __sub__(self, other: int) -> TracedNumber:
        return _difference(self, other, self.trace)

    def __rsub__(self, other: int) -> TracedNumber:
        return _difference(other, self, self.trace)


def _comparison(name: str) -> Callable[[TracedNumber, object], bool]:
    compare = getattr(operator, name)

    def compared(self: TracedNumber, other: object) -> bool:
        if not isinstance(other, int):
            if isinstance(other, Number) or name not in ("eq", "ne"):
                raise NotFollowedError
            return bool(name == "ne")
        outcome = bool(compare(plain(self), plain(other)))
        self.trace.add(name, self, other, outcome=outcome)
        return outcome

    return compared


for _name in _OPPOSITES:
    setattr(TracedNumber, f"__{_name}__", _comparison(_name))


def _refuse(*_given: object) -> Any:
    raise NotFollowedError


_TELLS_NOTHING: Final = {"__new__", "__getattribute__", "__doc__"}
"""What an `int` has that does not depend on its value."""
for _name in {*vars(int), "__str__"} - vars(TracedNumber).keys() - _TELLS_NOTHING:
    _is_attribute = inspect.isdatadescriptor(vars(int).get(_name))
    setattr(TracedNumber, _name, property(_refuse) if _is_attribute else _refuse)


def plain(value: int) -> int:
    """Return a number alone: what becomes of it is not followed."""
    return int.__int__(value)


def linear_of(value: object) -> Linear:
    """Return where an integer comes from. Raises NotFollowedError for what is none."""
    if isinstance(value, TracedNumber):
        return value.linear
    if not isinstance(value, int):
        raise NotFollowedError
    return Linear(constant=value)


def _difference(left: int, right: int, trace: Trace) -> TracedNumber:
    mine, others = linear_of(left), linear_of(right)
    if ZERO not in (mine.minus, others.plus) or others.minus != ZERO:
        raise NotFollowedError
    minus = others.plus if mine.minus == ZERO else mine.minus
    linear = Linear(mine.plus, minus, mine.constant - others.constant)
    if linear.plus == linear.minus:
        linear = Linear(constant=linear.constant)
    return TracedNumber.of(plain(left) - plain(right), linear, trace)


class StandIns:
    """Stand-ins for own UUIDs and texts. They are made from a secret, so nobody can send one.

    Each knows the cell of its value: of a UUID the first of two.
    """

    def __init__(self, secret: bytes) -> None:
        hidden = hashlib.blake2b(secret, digest_size=_HIDDEN).digest()
        self.token = hidden.hex()
        self._prefix = UUID_PREFIX + hidden
        self.uuids: dict[bytes, int] = {}
        self.texts: dict[str | Evidence, int] = {}

    def uuid(self, cell: int) -> bytes:
        """Return the stand-in for a UUID."""
        made = self._prefix + cell.to_bytes(2)
        self.uuids[made] = cell
        return made

    def text(self, cell: int) -> str:
        """Return the stand-in for a text."""
        made = f"{self.token}{cell:02}"
        self.texts[made] = cell
        return made

    def evidence(self, cell: int) -> Evidence:
        """Return the stand-in for evidence."""
        made = Evidence(f"{self.token}{cell:02}", b"")
        self.texts[made] = cell
        return made

    def key(self) -> ConnectionKey:
        """Return the stand-in for a connection."""
        cluster, client, server = (f"{self.token}{name}" for name in ("cluster", "host:port", "server"))
        return ConnectionKey(self.token.encode(), cluster, client, server, 0)

    def leak_into(self, packed: bytes) -> bool:
        """Whether facts hold a stand-in: it would stand for no connection's value."""
        return self.token.encode() in packed or self._prefix in packed
