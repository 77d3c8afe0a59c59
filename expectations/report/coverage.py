"""Coverage: how often each rule had something to judge, and with which verdicts.

A rule that had nothing to judge is "not exercised", which is not the same as "conforms".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from expectations.rules.base.rule import Rule, Verdict
from expectations.rules.catalogue import RULES

Checks = Mapping[tuple[str, str], int]
"""(rule id, verdict) → count."""


class Coverage(msgspec.Struct, frozen=True):
    """How often one rule gave each verdict."""

    rule: str
    conforms: int
    violates: int
    undecided: int

    @property
    def exercised(self) -> bool:
        """Whether the rule decided anything."""
        return self.conforms + self.violates > 0


def coverage_of(checks: Checks, rules: Iterable[Rule] = RULES) -> list[Coverage]:
    """Return the coverage of rules, in their order."""
    return [
        Coverage(rule.id, *(checks.get((rule.id, str(verdict)), 0) for verdict in Verdict)) for rule in rules
    ]


def state_in_words(coverage: Coverage) -> str:
    """Return the state of a rule: violated, conforms, undecided or not exercised."""
    if coverage.violates:
        return "violated"
    if coverage.conforms:
        return "conforms"
    return "undecided" if coverage.undecided else "not exercised"
