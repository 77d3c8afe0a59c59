"""Chooses the rules that are asked about an observation.

A rule has methods for the kinds of observations that it judges, and may declare APIs and connections that use
request header 3. Observations that differ in none of these are dispatched alike, so a dispatch is worked out
once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.rule import FRAMES, METHODS, Judgements, Rule, Verdict
from expectations.rules.catalogue import kept_name


class RuleCall(NamedTuple):
    """How a rule is asked: its method, the name of its state (None if it keeps none), and its check."""

    rule: Rule
    method: Callable[[Observation, Conversation, Any], Judgements]
    state_name: str | None
    conforming: tuple[str, str]

    @classmethod
    def of(cls, rule: Rule, kind: Kind) -> RuleCall:
        """Prepare the call of a rule that judges a kind of observations."""
        return cls(rule, getattr(rule, METHODS[kind]), kept_name(rule), _conforming(rule))


class Dispatch(NamedTuple):
    """The rules that are asked about a kind of observation, and the checks that it passes unasked."""

    calls: list[RuleCall]
    passed: list[tuple[str, str]]


class Dispatcher:
    """Finds the rules to ask about each observation."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._named_apis = frozenset().union(*(rule.apis or () for rule in rules))
        self._dispatches: dict[tuple[Kind, int | None, bool, bool], Dispatch] = {}

    def dispatch(self, observation: Observation, conversation: Conversation) -> Dispatch:
        """Return the rules to ask about such an observation on such a connection."""
        statement = observation.statement
        api_key = statement.api_key if statement.api_key in self._named_apis else None
        key = statement.kind, api_key, conversation.uses_header_v3, statement.is_clean
        if key not in self._dispatches:
            self._dispatches[key] = self._found(*key)
        return self._dispatches[key]

    def _found(self, kind: Kind, api_key: int | None, uses_header_v3: bool, is_clean: bool) -> Dispatch:
        """Find the rules to ask. `api_key` is None for an API that no rule names."""
        concerned = [
            rule
            for rule in self._rules
            if kind in rule.kinds
            and (uses_header_v3 or not rule.needs_header_v3)
            and (kind not in FRAMES or rule.apis is None or api_key in rule.apis)
        ]
        passed = [rule for rule in concerned if is_clean and rule.passes_clean]
        calls = [RuleCall.of(rule, kind) for rule in concerned if rule not in passed]
        return Dispatch(calls, [_conforming(rule) for rule in passed])


def _conforming(rule: Rule) -> tuple[str, str]:
    return rule.id, str(Verdict.CONFORMS)
