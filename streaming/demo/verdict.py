"""The demo's verdict: whether all was found that was planted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from expectations.judging.finding import Finding
from expectations.rules.base.rule import Level, Rule
from expectations.rules.catalogue import RULES
from streaming.demo.offences import PLANTED, Planted

Played = Mapping[str, Planted]
"""What was planted, by the address and port of the client that played it."""


def found_of(
    findings: Sequence[Finding], played: Played, rules: Iterable[Rule] = RULES
) -> list[tuple[Planted, bool]]:
    """Tell of each offence to plant whether its own connection shows all its rules, and no other.

    Of the rules that are judged by: those that are off find nothing.
    """
    judged = {rule.id for rule in rules}
    shown: dict[str, set[str]] = {}
    for finding in findings:
        if finding.client in played:
            shown.setdefault(played[finding.client].name, set()).add(finding.rule)
    return [(planted, planted.rules & judged == shown.get(planted.name, set())) for planted in PLANTED]


def violations_beside(findings: Sequence[Finding], played: Played) -> list[Finding]:
    """Give the violations that nobody planted on that connection."""
    return [
        finding
        for finding in findings
        if finding.level == Level.VIOLATION
        and not (finding.client in played and finding.rule in played[finding.client].rules)
    ]


def same_findings(left: Sequence[Finding], right: Sequence[Finding]) -> bool:
    """Whether two sources found the same: rule, 4-tuple, occurrences and context of each."""
    return sorted(map(str, (f.likeness() for f in left))) == sorted(map(str, (f.likeness() for f in right)))
