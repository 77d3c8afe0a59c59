"""Traced numbers: all that an `int` can do is followed or refused, so nothing becomes a constant unseen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from expectations.judging.cells import NUMBER, Linear
from expectations.judging.traced_values import NotFollowedError, Trace, TracedNumber

FOLLOWED = {
    *("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__bool__"),
}
WITHOUT_VALUE = {"__new__", "__getattribute__", "__doc__", "__hash__"}
"""What tells nothing of the value; the hash of all traced numbers is equal."""


def traced(value: int = 5) -> TracedNumber:
    return TracedNumber.of(value, Linear(NUMBER), Trace())


@pytest.mark.parametrize("name", sorted({*vars(int), "__str__"} - FOLLOWED - WITHOUT_VALUE))
def test_what_is_not_followed_is_refused(name: str) -> None:
    with pytest.raises(NotFollowedError):
        getattr(traced(), name)()


@pytest.mark.parametrize(
    "use",
    [
        lambda count: 1 & count,
        lambda count: count ^ 1,
        lambda count: 1 << count,
        lambda count: +count,
        lambda count: ~count,
        lambda count: count**2,
        lambda count: divmod(count, 2),
        lambda count: divmod(7, count),
        round,
        math.floor,
        int,
        float,
        copy.copy,
        lambda count: count.real,
        lambda count: f"{count!r}",
        lambda count: f"{count}",
        lambda count: str([count]),
        lambda count: 2 * count,
        lambda count: count > 4.5,
        lambda count: count == 5.0,
        lambda count: count < Fraction(11, 2),
        lambda count: count + 0.5,
        lambda count: count - 0.5,
    ],
)
def test_what_a_rule_may_do_with_a_number_is_refused(use: Callable[[TracedNumber], object]) -> None:
    with pytest.raises(NotFollowedError):
        use(traced())


@pytest.mark.parametrize(
    "use",
    [
        lambda count: count > 4,
        lambda count: 6 > count,  # noqa: SIM300
        lambda count: count != 0,
        lambda count: count + 1 == 6,
        lambda count: 8 - count >= 3,
        bool,
    ],
)
def test_what_is_followed_leaves_a_guard(use: Callable[[TracedNumber], object]) -> None:
    count = traced()
    assert use(count)
    assert len(count.trace.guards) == 1


def test_a_number_is_nothing_else_than_a_number() -> None:
    count = traced()
    others: list[object] = ["5", None, ()]
    assert not any(count == other for other in others)
    assert not count.trace.guards
