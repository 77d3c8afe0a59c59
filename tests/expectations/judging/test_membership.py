"""Members that stand alike have one name for it, whoever they are; what counts makes another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.identifier import ZERO, identifier_text
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.membership import NO_MEMBER, member_number, membership_of, sole_member
from tests.exchange import ID_A, Exchange
from tests.expectations.conversation.test_fold import beat, beats

ONE, OTHER = "8zQ4pXkCTt2cYd0sVhGm1A", "u1nGfQ5lT8-7bDk_QzWq3w"


def state_after(say: Callable[[Exchange], object], instance_id: bytes | None = None) -> ConnectionState:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    if instance_id is not None:
        exchange.answer(exchange.request("Metadata", 14, client_id="app", instance_id=instance_id), {})
    say(exchange)
    (window,) = exchange.windows(len(exchange.records))
    state = open_connection(window)
    Judge(default_schemas().api_names).hear(state, window)
    return state


def membership(say: Callable[[Exchange], object], instance_id: bytes | None = None) -> bytes:
    state = state_after(say, instance_id)
    member = sole_member(state)
    assert member is not None
    return membership_of(state, member)


def steady(member_id: str, times: int = 2, **said: Any) -> Callable[[Exchange], None]:
    return lambda exchange: beats(exchange, times, member_id, **{"memberId": member_id} | said)


@pytest.mark.parametrize("times", [2, 3])
def test_members_that_heard_and_said_alike_stand_alike(times: int) -> None:
    assert membership(steady(ONE)) == membership(steady(OTHER, times))


def test_what_may_change_a_judgement_makes_a_difference() -> None:
    said = [
        membership(steady(ONE)),
        membership(steady(ONE, epoch=2)),
        membership(steady(ONE, memberId=OTHER)),
        membership(steady(ONE, memberId="")),
        membership(steady(ONE, heartbeatIntervalMs=3000)),
        membership(lambda exchange: (steady(ONE)(exchange), beat(exchange, ONE, 1))),
        membership(steady(identifier_text(ID_A)), ID_A),
    ]
    assert len(set(said)) == len(said)
    assert membership(steady(OTHER), ID_A) == said[0]


@pytest.mark.parametrize(
    "say",
    [
        lambda exchange: exchange.request("Metadata", 12, client_id="app"),
        lambda exchange: (beat(exchange, ONE, 1), beat(exchange, OTHER, 1)),
        lambda exchange: (beat(exchange, ONE, 1), beat(exchange, ONE, -1)),
        *(steady(member_id) for member_id in ("A", ZERO, ID_A.hex(), ONE + "==")),
    ],
)
def test_there_is_none_or_more_than_one_or_one_of_another_form(say: Callable[[Exchange], object]) -> None:
    assert sole_member(state_after(say)) is None


def test_numbers_tell_members_apart() -> None:
    assert len({NO_MEMBER, member_number(ONE), member_number(OTHER), member_number(ONE[:-1] + "B")}) == 4
