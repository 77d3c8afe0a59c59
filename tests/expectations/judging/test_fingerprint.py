"""Member fingerprints: equal for members with equal facts, whatever their IDs; different facts differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.identifier import ZERO, identifier_text
from expectations.judging.fingerprint import member_fingerprint_of, only_member
from expectations.judging.id_numbers import NO_ID, member_number
from expectations.judging.judge import ConnectionState, Judge, open_connection
from tests.exchange import ID_A, Exchange
from tests.expectations.conversation.test_fold import beat, beats

ONE, OTHER = "8zQ4pXkCTt2cYd0sVhGm1A", "u1nGfQ5lT8-7bDk_QzWq3w"


def state_after(say: Callable[[Exchange], object], instance_id: bytes | None = None) -> ConnectionState:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    if instance_id is not None:
        exchange.respond(exchange.request("Metadata", 14, client_id="app", instance_id=instance_id), {})
    say(exchange)
    (window,) = exchange.windows(len(exchange.records))
    state = open_connection(window.connection)
    Judge(default_schemas().api_names).judge(state, window)
    return state


def fingerprint(say: Callable[[Exchange], object], instance_id: bytes | None = None) -> bytes | None:
    state = state_after(say, instance_id)
    member = only_member(state)
    assert member is not None
    return member_fingerprint_of(state, *member)


def steady(member_id: str, times: int = 2, **said: Any) -> Callable[[Exchange], None]:
    return lambda exchange: beats(exchange, times, member_id, **{"memberId": member_id} | said)


@pytest.mark.parametrize("times", [2, 3])
def test_members_with_equal_facts_have_equal_fingerprints(times: int) -> None:
    assert fingerprint(steady(ONE)) == fingerprint(steady(OTHER, times))


def test_what_may_change_a_judgement_makes_a_difference() -> None:
    said = [
        fingerprint(steady(ONE)),
        fingerprint(steady(ONE, epoch=2)),
        fingerprint(steady(ONE, memberId=OTHER)),
        fingerprint(steady(ONE, memberId="")),
        fingerprint(steady(ONE, heartbeatIntervalMs=3000)),
        fingerprint(steady(identifier_text(ID_A)), ID_A),
    ]
    assert None not in said
    assert len(set(said)) == len(said)
    assert fingerprint(steady(OTHER), ID_A) == said[0]


@pytest.mark.parametrize("epoch", [1, -1])
def test_while_a_rule_waits_for_the_response_to_a_heartbeat_there_is_none(epoch: int) -> None:
    """The verdict on the response depends on the request, whose sequence and time nobody else has."""
    assert fingerprint(lambda exchange: (steady(ONE)(exchange), beat(exchange, ONE, epoch))) is None


@pytest.mark.parametrize(
    "say",
    [
        lambda exchange: exchange.request("Metadata", 12, client_id="app"),
        lambda exchange: (beat(exchange, ONE, 1), beat(exchange, OTHER, 1)),
        *(steady(member_id) for member_id in ("A", ZERO, ID_A.hex(), ONE + "==")),
    ],
)
def test_there_is_none_or_more_than_one_or_one_of_another_form(say: Callable[[Exchange], object]) -> None:
    assert only_member(state_after(say)) is None


def test_numbers_tell_members_apart() -> None:
    assert len({NO_ID, member_number(ONE), member_number(OTHER), member_number(ONE[:-1] + "B")}) == 4
