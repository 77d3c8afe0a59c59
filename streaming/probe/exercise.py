"""Which duty of a probe, and which provocation, gives each rule something to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import rule_named
from streaming.probe.duties import DUTIES
from streaming.record.provocations import PROVOCATIONS


def exercises(rule: Rule) -> list[str]:
    """Return the commands that let a rule judge something; none where a client must do it by itself."""
    duties = [duty.name for duty in DUTIES if rule.id in duty.rules]
    provocations = [each.name for each in PROVOCATIONS if rule.id in each.rules]
    asked = [f"kipwatch probe ({', '.join(duties)})"] if duties else []
    return asked + ([f"kipwatch record --provoke {','.join(provocations)}"] if provocations else [])


def unexercised(coverage: Iterable[Coverage]) -> Iterator[str]:
    """Yield a line for each rule that decided nothing: what it needs, and what would give it that."""
    for row in coverage:
        if not row.exercised:
            rule = rule_named(row.rule)
            by = "; ".join(exercises(rule))
            yield f"{rule.id} needs {rule.needs}" + (f": {by}" if by else "")
