"""What judging comes to: findings to publish, and what is to be counted."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from expectations.identity.claim import Claim
from expectations.judging.finding import Finding
from expectations.rules.base.rule import Judgement, Rule

SUPPRESSED = "suppressed"


class Offence(msgspec.Struct, frozen=True, array_like=True):
    """What offences are counted by: the rule, how much it weighs, and whose software offends.

    The level of those that users have chosen to bear is SUPPRESSED.
    """

    rule: str
    level: str
    role: str
    software_name: str | None
    software_version: str | None


class Outcome(msgspec.Struct):
    """What a window brought: findings to publish, checks by (rule id, verdict), offences made.

    `claims` are what it told of identities that other connections may share, `answered` the API
    versions that the broker answered, `judged` by (connection, rule id, verdict) whom the checks of
    identities were about.
    """

    findings: list[Finding] = []
    checks: dict[tuple[str, str], int] = {}
    offences: dict[Offence, int] = {}
    claims: list[Claim] = []
    answered: set[tuple[int, int]] = set()
    judged: list[tuple[bytes, str, str]] = []

    def count(self, rule: Rule, judgement: Judgement) -> None:
        """Count one judgement."""
        key = (rule.id, str(judgement.verdict))
        self.checks[key] = self.checks.get(key, 0) + judgement.count

    def add(self, other: Outcome) -> None:
        """Take in what came to pass after this."""
        self.findings.extend(other.findings)
        self.claims.extend(other.claims)
        self.judged.extend(other.judged)
        self.answered |= other.answered
        for check, count in other.checks.items():
            self.checks[check] = self.checks.get(check, 0) + count
        for offence, count in other.offences.items():
            self.offences[offence] = self.offences.get(offence, 0) + count

    def count_offence(self, finding: Finding) -> None:
        """Count an offence. One that only rises in level counts once at its new level."""
        software = (finding.client_software_name, finding.client_software_version)
        level = SUPPRESSED if finding.suppressed else finding.level
        offence = Offence(finding.rule, level, finding.role, *software)
        self.offences[offence] = self.offences.get(offence, 0) + max(finding.occurrences, 1)


def merged(outcomes: Iterable[Outcome]) -> Outcome:
    """Put together what several windows brought, one after the other."""
    whole = Outcome()
    for outcome in outcomes:
        whole.add(outcome)
    return whole
