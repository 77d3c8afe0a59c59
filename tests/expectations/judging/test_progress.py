"""Rules read the progress of a connection only if they declare it: the cache relies on that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.judging.dispatch import RuleCall
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from tests.cases.test_cases import CASES
from tests.exchange import Exchange
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of

NAMES = default_schemas().api_names
SAMPLED = 23
"""Of this many mutants one is judged."""


class UndeclaredReadError(Exception):
    """A rule read what it does not declare."""


class Hidden:
    """Stands in the place of a progress, and raises on every read."""

    def __getattr__(self, name: str) -> Any:
        raise UndeclaredReadError(name)


@contextmanager
def hidden(conversation: Conversation) -> Iterator[None]:
    """Hide a conversation's progress."""
    progress, conversation.progress = conversation.progress, Hidden()  # type: ignore[assignment]
    try:
        yield
    finally:
        conversation.progress = progress


class StrictJudge(Judge):
    """Hides the progress from every rule that does not declare `uses_progress`."""

    def _ask(
        self, calls: list[RuleCall], state: ConnectionState, observation: Observation, outcome: Outcome
    ) -> None:
        for call in calls:
            if call.rule.uses_progress:
                super()._ask([call], state, observation, outcome)
                continue
            with hidden(state.conversation):
                super()._ask([call], state, observation, outcome)

    def _close(self, rule: Rule, state: ConnectionState, closed: Observation, outcome: Outcome) -> None:
        if rule.uses_progress:
            super()._close(rule, state, closed, outcome)
            return
        with hidden(state.conversation):
            super()._close(rule, state, closed, outcome)


def judge_strictly(exchange: Exchange, rules: Any) -> None:
    exchange.judge(rules=rules, judge=StrictJudge(NAMES, Terms(rules)))


def test_no_rule_reads_progress_undeclared_in_any_case() -> None:
    for case in CASES:
        judge_strictly(*case.played())


@pytest.mark.slow
def test_no_rule_reads_progress_undeclared_in_mutants() -> None:
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, SAMPLED):
        judge_strictly(*mutant.performed())


def test_a_rule_that_reads_it_is_noticed() -> None:
    conversation = Conversation(b"c" * 16, "", "", "", 1)
    with hidden(conversation), pytest.raises(UndeclaredReadError, match="sequence"):
        assert conversation.progress.sequence
    assert conversation.progress.sequence == 0
