"""Rules are asked only about what they declare, and would ignore the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import WAITING_LIMIT
from expectations.conversation.observation import Observation
from expectations.judging.dispatch import Dispatch, Dispatcher, RuleCall
from expectations.judging.judge import Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.rules.base.rule import METHODS
from tests.examples import examples
from tests.exchange import Exchange, added_up
from tests.expectations.conversation.columnar.test_folding import STEPS


class ToEveryRule(Dispatcher):
    """Finds that every rule is to be asked about every observation."""

    def dispatch(self, observation: Observation, conversation: Conversation) -> Dispatch:
        kind = observation.kind
        return Dispatch([RuleCall.of(rule, kind) for rule in self._rules if kind in METHODS], [])


class AskingEveryRule(Judge):
    """Asks every rule about every observation."""

    def __init__(self, api_names: Mapping[int, str]) -> None:
        super().__init__(api_names)
        self._dispatcher = ToEveryRule(self._rules)


@examples(200)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=30), st.booleans(), st.booleans())
def test_asking_every_rule_about_everything_changes_nothing(
    steps: list[str], mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for name in steps:
        STEPS[name](exchange)
    if closed:
        exchange.close()
    names = default_schemas().api_names
    assert judged(Judge(names), exchange) == judged(AskingEveryRule(names), exchange)


@pytest.mark.parametrize("requests", [1, WAITING_LIMIT, WAITING_LIMIT + 5])
def test_claims_that_a_request_makes_the_negotiation_give_up_are_judged(requests: int) -> None:
    """A request without a response is given up for the one behind it once too many wait."""
    exchange = Exchange()
    for _ in range(requests):
        exchange.request("ApiVersions", 4, {"clientSoftwareName": "-a", "clientSoftwareVersion": "1"})
    names = default_schemas().api_names
    checks, *_ = found = judged(Judge(names), exchange)
    assert found == judged(AskingEveryRule(names), exchange)
    given_up = max(0, requests - WAITING_LIMIT)
    assert checks.get(("kip511/software-name-malformed", "forgotten"), 0) == given_up


def test_a_claim_that_cannot_be_read_is_judged_at_once() -> None:
    whole = Exchange().request("ApiVersions", 4, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
    exchange = Exchange()
    exchange.request("ApiVersions", 4, frame=whole.frame[:-3])
    names = default_schemas().api_names
    checks, *_ = found = judged(Judge(names), exchange)
    assert found == judged(AskingEveryRule(names), exchange)
    assert checks["kip511/software-name-malformed", "unreadable"] == 1


def judged(judge: Judge, exchange: Exchange) -> tuple[Any, ...]:
    windows = exchange.windows()
    state = open_connection(windows[0].connection)
    outcome: Outcome = added_up([judge.judge(state, window) for window in windows])
    return outcome.checks, {finding.id: finding for finding in outcome.findings}, state
