"""All that the automaton learns is needed: a fault in any part is caught by the comparison with the judge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from expectations.judging import automaton
from expectations.judging.cells import ADVANCED, NUMBER, PROGRESS, UUID, Effect, Linear
from expectations.judging.traced_values import Guard
from expectations.judging.tracing import Learnt, learn
from tests.cases.test_cases import CASES
from tests.streaming.judging.stepping import Pairs

pytestmark = pytest.mark.usefixtures("transitions_are_learnt_at_once")

SIZES = (1, 4)
"""Records in a batch of the cases, of which a third is compared."""


def without_guards(learnt: Learnt) -> Learnt:
    return learnt._replace(guards=())


def without_first_guard(learnt: Learnt) -> Learnt:
    return learnt._replace(guards=learnt.guards[1:])


def with_guards_after_the_frame(learnt: Learnt) -> Learnt:
    """Guards read the progress after the frame has moved it."""

    def moved(value: Linear) -> Linear:
        is_progress = PROGRESS <= value.plus < NUMBER
        return value._replace(plus=value.plus + ADVANCED - PROGRESS) if is_progress else value

    guards = [Guard(each.comparison, moved(each.left), moved(each.right)) for each in learnt.guards]
    return learnt._replace(guards=tuple(guards))


def without_last_move(learnt: Learnt) -> Learnt:
    numbers = [cell for cell, value in learnt.moves if NUMBER <= cell < UUID and value != Linear()]
    return learnt._replace(moves=tuple(move for move in learnt.moves if move[0] not in numbers[-1:]))


def without_moves_of_ids(learnt: Learnt) -> Learnt:
    return learnt._replace(moves=tuple(move for move in learnt.moves if move[0] < UUID))


def with_registers_that_are_not_zeroed(learnt: Learnt) -> Learnt:
    """What facts have no use for is zero, or an ID of the past would be taken for the connection's own."""
    return learnt._replace(moves=tuple(move for move in learnt.moves if move[1] != Linear()))


def without_a_check(learnt: Learnt) -> Learnt:
    return learnt._replace(checks=learnt.checks[:-1])


def with_a_check_twice(learnt: Learnt) -> Learnt:
    return learnt._replace(checks=(*learnt.checks, ("wire/not-kafka", "conforms")))


def without_claims(learnt: Learnt) -> Learnt:
    return learnt._replace(claims=tuple(each for each in learnt.claims if each.is_of_server))


def without_claims_of_servers(learnt: Learnt) -> Learnt:
    return learnt._replace(claims=tuple(each for each in learnt.claims if not each.is_of_server))


def without_effect(learnt: Learnt) -> Learnt:
    return learnt._replace(effect=Effect.NOTHING)


FAULTS: list[Callable[[Learnt], Learnt]] = [
    without_guards,
    without_first_guard,
    with_guards_after_the_frame,
    without_last_move,
    without_moves_of_ids,
    with_registers_that_are_not_zeroed,
    without_a_check,
    with_a_check_twice,
    without_claims,
    without_claims_of_servers,
    without_effect,
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_a_fault_in_what_is_learnt_is_caught(
    fault: Callable[[Learnt], Learnt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automaton, "learn", lambda *given: fault(learn(*given)))
    pairs = Pairs()
    with pytest.raises(AssertionError):
        for size in SIZES:
            pairs.compare(CASES[::3], size)
