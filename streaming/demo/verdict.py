"""The verdict of the demo: whether all planted offences were found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from expectations.judging.finding import Finding
from expectations.rules.base.rule import Level, Rule
from expectations.rules.catalogue import RULES
from streaming.demo.offences import PLANTED, PlantedOffence

Played = Mapping[str, PlantedOffence]
"""The planted offences by the address and port of the client that played them."""


def offences_found(
    findings: Sequence[Finding], played: Played, rules: Iterable[Rule] = RULES
) -> list[tuple[PlantedOffence, bool]]:
    """Return each planted offence, and whether its connection violates all its rules and no others.

    Only `rules` count: disabled ones find nothing.
    """
    judged = {rule.id for rule in rules}
    shown: dict[str, set[str]] = {}
    for finding in findings:
        if finding.client in played:
            shown.setdefault(played[finding.client].name, set()).add(finding.rule)
    return [(planted, planted.rules & judged == shown.get(planted.name, set())) for planted in PLANTED]


def unplanted_violations(findings: Sequence[Finding], played: Played) -> list[Finding]:
    """Return the violations that were not planted on their connections."""
    return [
        finding
        for finding in findings
        if finding.level == Level.VIOLATION
        and not (finding.client in played and finding.rule in played[finding.client].rules)
    ]


def same_findings(left: Sequence[Finding], right: Sequence[Finding]) -> bool:
    """Whether two sources have equal findings: rule, 4-tuple, occurrences and context of each."""
    return sorted(map(str, (f.likeness() for f in left))) == sorted(map(str, (f.likeness() for f in right)))
