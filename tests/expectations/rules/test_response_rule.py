"""Requests wait for their responses in bounded number, and each of them is dropped exactly once."""

from __future__ import annotations

import msgspec

from expectations.conversation.observation import ConnectionKey, Observation
from expectations.judging.judge import open_connection
from expectations.rules.base.response_rule import AWAITED_LIMIT, Awaited
from expectations.rules.base.rule import Judgement, Verdict
from tests.exchange import ID_A, ID_B, Exchange

CONVERSATION = open_connection(ConnectionKey(b"", "", "", "", 0)).conversation
RULE = "kip1313/instance-id-accepted-wrongly"


def a_request() -> Observation:
    """Some request, as it was observed."""
    exchange = Exchange()
    exchange.request("OffsetDelete", 1, client_id="app", instance_id=ID_A)
    return exchange.windows()[0].observations[-1]


def changed(request: Observation, **occurrence: int) -> Observation:
    """The same statement with another occurrence."""
    return Observation(request.statement, msgspec.structs.replace(request.occurrence, **occurrence))


def total(judgements: list[Judgement]) -> int:
    assert all(judgement.verdict is Verdict.UNDECIDED for judgement in judgements)
    return sum(judgement.count for judgement in judgements)


def test_the_oldest_is_given_up_when_too_many_wait() -> None:
    awaited, request = Awaited(), a_request()
    given_up = [
        judgement
        for number in range(AWAITED_LIMIT + 3)
        for judgement in awaited.add(changed(request, first_sequence=10 + number))
    ]
    assert total(given_up) == 3
    assert next(iter(awaited.requests)) == 13
    assert total([*awaited.give_up(CONVERSATION)]) == AWAITED_LIMIT
    assert awaited == Awaited()


def test_folded_requests_wait_until_all_have_responses() -> None:
    awaited, request = Awaited(), changed(a_request(), first_sequence=10, count=5)
    assert [*awaited.add(request)] == []
    response = changed(request, paired_sequence=10, count=3)
    assert awaited.take(response) == request
    assert total([*awaited.give_up(CONVERSATION)]) == 2


def test_a_request_that_expects_no_response_does_not_wait() -> None:
    observation = a_request()
    silent = msgspec.structs.replace(observation.statement, expects_response=False)
    awaited, request = Awaited(), Observation(silent, observation.occurrence)
    assert total([*awaited.add(request)]) == 1
    assert awaited == Awaited()


def test_a_storm_of_offences_is_judged_by_every_response_whatever_the_window() -> None:
    exchange = Exchange()
    exchange.request("OffsetDelete", 1, client_id="app", instance_id=ID_A)
    waiting = []
    for number in range(150):
        waiting.append(exchange.request("OffsetDelete", 1, instance_id=ID_B))
        if number % 3:
            exchange.respond(waiting.pop(0), {"errorCode": 42 if number % 2 else 0})
    exchange.close()
    expected = {(RULE, "violates"): 50, (RULE, "conforms"): 50, (RULE, "no-response"): 50}
    for size in (10_000, 64, 7, 1):
        checks = exchange.judge(size).checks
        assert {key: count for key, count in checks.items() if key[0] == RULE} == expected
