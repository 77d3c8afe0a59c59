"""What is kept of a connection is bounded, whatever comes again and again on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from expectations.conversation.members import MEMBER_LIMIT
from expectations.conversation.observation import Observation, Statement
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.catalogue import RULES
from expectations.rules.kip_1082.member_id_changed import GROUPS_LIMIT, RIVALS_LIMIT
from tests.cases.test_cases import CASES
from tests.examples import sampled
from tests.exchange import Exchange

CHANGED: Final = "kip1082/member-id-changed"
TIMES: Final = 70
"""How often a frame comes until the state is measured, and again until it is compared: beyond all limits."""
GROWTH: Final = 1_000
"""Bytes by which numbers may become longer meanwhile, in all that a limit lets a connection keep."""
BODIES: Final = (
    ("member_id",),
    ("group_id",),
    ("group_id", "member_id"),
    ("name",),
    ("cluster_id",),
    ("instance_id",),
)
"""Fields of bodies that take ever new texts."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ConnectionState)


def said(statement: Statement, number: int) -> Iterator[Statement]:
    """Yield a statement, and each variant of it in which somebody says something new, by a number."""
    text = f"new {number}"
    yield statement
    if statement.kind is Kind.REQUEST:
        yield replace(statement, client_id=text)
        yield replace(statement, client_instance_id=number.to_bytes(16))
        yield replace(statement, api_version=number)
        yield replace(statement, api_key=number, body=None)
    for names in BODIES:
        if set(names) <= set(getattr(statement.body, "__struct_fields__", ())):
            yield replace(statement, body=replace(statement.body, **dict.fromkeys(names, text)))  # type: ignore[type-var]


def again(observation: Observation, statement: Statement, number: int) -> Observation:
    """Return an observation as it comes again with a statement."""
    occurrence = observation.occurrence
    sequence, at = occurrence.last_sequence + number, occurrence.last_captured_at + number
    correlation_id = None if occurrence.correlation_id is None else number
    times = {"first_captured_at": at, "last_captured_at": at, "previous_captured_at": 0}
    sequences = {"first_sequence": sequence, "last_sequence": sequence, "count": 1}
    return Observation(statement, replace(occurrence, correlation_id=correlation_id, **times, **sequences))


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_frame_that_comes_again_does_not_grow_the_state_for_ever(rule: str) -> None:
    for case in sampled([case for case in CASES if case.rule == rule]):
        exchange, rules = case.exchange()
        judge = Judge(default_schemas().api_names, Terms(rules))
        states: dict[bytes, ConnectionState] = {}
        for window in exchange.windows(1):
            state = states.setdefault(window.connection.id, open_connection(window.connection))
            for observation in window.observations:
                if observation.kind is not Kind.CLOSED:
                    for variant in range(len([*said(observation.statement, 0)])):
                        assert growth(judge, state, observation, variant) < GROWTH, (case.title, observation)
                judge.judge_observation(state, observation, Outcome())


@pytest.mark.parametrize("further", [0, 5])
def test_ids_beside_a_members_own_are_remembered_in_bounded_number(further: int) -> None:
    """More of them than members are followed, and within a moment."""
    exchange = Exchange()
    for number in range(1 + RIVALS_LIMIT + further):
        exchange.beat(f"member {number}")
    exchange.close()
    checks = exchange.judge().checks
    assert (checks[CHANGED, "violates"], checks.get((CHANGED, "forgotten"), 0)) == (RIVALS_LIMIT, further)


def test_a_member_that_is_silent_is_replaced_though_others_are_too_many_to_follow() -> None:
    exchange = Exchange()
    for number in range(MEMBER_LIMIT):
        exchange.beat(f"member {number}")
    exchange.wait(60)
    exchange.beat("one more")
    assert exchange.judge().checks[CHANGED, "violates"] == MEMBER_LIMIT


@pytest.mark.parametrize("groups", [GROUPS_LIMIT, GROUPS_LIMIT + 1])
def test_a_proxy_of_many_groups_breaks_nothing(groups: int) -> None:
    """Each member keeps its ID. With one group too many all are forgotten before they come again."""
    exchange = Exchange()
    for _ in range(2):
        for number in range(groups):
            body = {"groupId": f"group {number}", "memberId": f"member {number}", "memberEpoch": 1}
            exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="proxy")
    checks = exchange.judge().checks
    assert (CHANGED, "violates") not in checks
    forgotten = checks.get((CHANGED, "forgotten"), 0)
    assert forgotten + checks.get((CHANGED, "conforms"), 0) == groups + (groups - GROUPS_LIMIT)
    assert forgotten == (0 if groups == GROUPS_LIMIT else groups + 1)


def growth(judge: Judge, state: ConnectionState, observation: Observation, variant: int) -> int:
    """Return by how many bytes the state grows after it was full."""
    repeated, sizes = _DECODER.decode(_ENCODER.encode(state)), list[int]()
    for number in range(1, 2 * TIMES + 1):
        statement = [*said(observation.statement, number)][variant]
        judge.judge_observation(repeated, again(observation, statement, number), Outcome())
        if number % TIMES == 0:
            sizes.append(len(_ENCODER.encode(repeated)))
    return sizes[1] - sizes[0]
