"""Coverage: how often each rule had something to judge, and what came of it.

A rule without any opportunity is told apart from one that everything conformed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from expectations.rules.base.rule import Rule, Verdict
from expectations.rules.catalogue import RULES

Checks = Mapping[tuple[str, str], int]


class Coverage(msgspec.Struct, frozen=True):
    """The checks of one rule."""

    rule: str
    conforms: int
    violates: int
    undecided: int

    @property
    def exercised(self) -> bool:
        """Whether there was anything to decide by this rule."""
        return self.conforms + self.violates > 0


def coverage_of(checks: Checks, rules: Iterable[Rule] = RULES) -> list[Coverage]:
    """Tell the coverage of rules, of all unless some are given, from counts by (rule id, verdict)."""
    return [
        Coverage(rule.id, *(checks.get((rule.id, str(verdict)), 0) for verdict in Verdict)) for rule in rules
    ]


def state_in_words(coverage: Coverage) -> str:
    """One word for a rule: violated, conforms, undecided or not exercised."""
    if coverage.violates:
        return "violated"
    if coverage.conforms:
        return "conforms"
    return "undecided" if coverage.undecided else "not exercised"
