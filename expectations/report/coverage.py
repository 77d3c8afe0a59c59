"""Coverage: how often each rule had something to judge, and with which verdicts.

A rule that had nothing to judge is "not exercised", which is not the same as "conforms".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Rule, Verdict
from expectations.rules.catalogue import RULES

Checks = Mapping[tuple[str, str], int]
"""(rule ID, ruling) → count."""
FAMILY_NAMES = {rule.family: rule.kip for rule in RULES}
"""How the KIP of each family of rules is called."""
RULE_LEVELS = {rule.id: str(rule.level) for rule in RULES}
"""The own level of each rule; a finding may have another."""


class Coverage(msgspec.Struct, frozen=True):
    """How often one rule gave each verdict. `reasons` counts the undecided checks by reason, most first."""

    rule: str
    conforms: int
    violates: int
    undecided: int
    reasons: dict[str, int] = {}

    @property
    def family(self) -> str:
        """The family of the rule."""
        return self.rule.partition("/")[0]

    @property
    def exercised(self) -> bool:
        """Whether the rule decided anything."""
        return self.conforms + self.violates > 0


def coverage_of(checks: Checks, rules: Iterable[Rule] = RULES) -> list[Coverage]:
    """Return the coverage of rules, in their order."""
    of_rules: dict[str, dict[str, int]] = {}
    for (rule, ruling), count in checks.items():
        of_rules.setdefault(rule, {})[ruling] = count
    return [_coverage(rule.id, of_rules.get(rule.id, {})) for rule in rules]


def _coverage(rule: str, rulings: Mapping[str, int]) -> Coverage:
    verdicts = by_verdict(rulings)
    reasons = [str(reason) for reason in Reason if reason in rulings]
    reasons.sort(key=lambda reason: -rulings[reason])
    conforms, violates, undecided = (verdicts.get(verdict, 0) for verdict in Verdict)
    return Coverage(rule, conforms, violates, undecided, {reason: rulings[reason] for reason in reasons})


def by_verdict(rulings: Mapping[str, int]) -> dict[Verdict, int]:
    """Add up counts of rulings by verdict."""
    verdicts: dict[Verdict, int] = {}
    for ruling, count in rulings.items():
        verdict = Verdict.of(ruling)
        verdicts[verdict] = verdicts.get(verdict, 0) + count
    return verdicts


def state_in_words(coverage: Coverage) -> str:
    """Return the state of a rule: violated, conforms, undecided or not exercised."""
    if coverage.violates:
        return "violated"
    if coverage.conforms:
        return "conforms"
    return "undecided" if coverage.undecided else "not exercised"
