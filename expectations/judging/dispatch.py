"""Which rules are asked about an observation.

A rule declares what it may judge: kinds, APIs, headers, what happened before. Observations that no
declaration tells apart are dispatched alike, so a dispatch is worked out once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.statement import Statement
from expectations.rules.base.rule import FRAMES, Judgement, Rule, Verdict
from expectations.rules.catalogue import kept_name


class RuleCall(NamedTuple):
    """How a rule is asked: its `judge`, the name of its state (None if it keeps none), and its check."""

    rule: Rule
    judge: Callable[[Observation, Conversation, Any], Iterator[Judgement]]
    state_name: str | None
    conforming: tuple[str, str]

    @classmethod
    def of(cls, rule: Rule) -> RuleCall:
        """Prepare the call of a rule."""
        return cls(rule, rule.judge, kept_name(rule), _conforming(rule))


class Dispatch(NamedTuple):
    """The rules that are asked about a kind of observation, and the checks that it passes unasked."""

    calls: list[RuleCall]
    passed: list[tuple[str, str]]


class Dispatcher:
    """Finds the rules to ask about each observation."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._named_apis = frozenset().union(*(rule.not_apis.union(rule.apis or ()) for rule in rules))
        self._dispatches: dict[tuple[object, ...], Dispatch] = {}

    def dispatch(self, observation: Observation, conversation: Conversation) -> Dispatch:
        """Return the rules to ask about such an observation on such a connection."""
        statement, negotiation = observation.statement, conversation.negotiation
        is_request = statement.kind is Kind.REQUEST
        key = (
            statement.kind,
            statement.api_key if statement.api_key in self._named_apis else None,
            conversation.uses_header_v3,
            statement.uses_header_v3 if is_request and statement.has_header else None,
            bool(negotiation.errors),
            statement.is_clean,
            _is_readable_request(statement) and not negotiation.given_up,
        )
        if key not in self._dispatches:
            asked = _Asked(*key)
            concerned = [rule for rule in self._rules if asked.concerns(rule)]
            passed = [rule for rule in concerned if asked.is_clean and rule.passes_clean]
            calls = [RuleCall.of(rule) for rule in concerned if rule not in passed]
            self._dispatches[key] = Dispatch(calls, [_conforming(rule) for rule in passed])
        return self._dispatches[key]


class _Asked(NamedTuple):
    """What decides which rules are asked about an observation.

    `api_key` is None for an API that no rule names. `on_header_v3` is None unless a request's header is
    certain. `gives_up_nothing` is a request with a body that makes the negotiation give up nothing.
    """

    kind: Kind
    api_key: int | None
    uses_header_v3: bool
    on_header_v3: bool | None
    is_after_error: bool
    is_clean: bool
    gives_up_nothing: bool

    def concerns(self, rule: Rule) -> bool:
        """Whether the rule may judge such an observation."""
        if self.kind not in rule.kinds or (rule.needs_header_v3 and not self.uses_header_v3):
            return False
        if (rule.after_error and not self.is_after_error) or (rule.only_given_up and self.gives_up_nothing):
            return False
        if self.kind not in FRAMES:
            return True
        headers = rule.on_header_v3, self.on_header_v3
        is_of_api = (rule.apis is None or self.api_key in rule.apis) and self.api_key not in rule.not_apis
        return is_of_api and (None in headers or len(set(headers)) == 1)


def _conforming(rule: Rule) -> tuple[str, str]:
    return rule.id, str(Verdict.CONFORMS)


def _is_readable_request(statement: Statement) -> bool:
    """Whether a statement is a request with a body that rules read; a crafted one may claim to be paired."""
    return statement.kind is Kind.REQUEST and statement.body is not None and not statement.is_matched
