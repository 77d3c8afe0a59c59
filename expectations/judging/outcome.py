"""The outcome of judging a window: findings to publish, claims on identities, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from expectations.conversation.bodies import SoftwareClaim
from expectations.identity.claim import Claim
from expectations.judging.finding import Finding
from expectations.rules.base.rule import Judgement, Rule

SUPPRESSED = "suppressed"


class Offence(msgspec.Struct, frozen=True, array_like=True):
    """The key by which offences are counted: the rule, the level, the offender and the listener.

    The level of an offence that users suppress is SUPPRESSED.
    """

    rule: str
    level: str
    role: str
    software_name: str | None
    software_version: str | None
    cluster: str = ""
    listener: str = ""
    owner: str | None = None


class Outcome(msgspec.Struct):
    """The outcome of a window: findings to publish, number of checks by (rule ID, ruling), and of offences.

    `claims` concern identities that other connections may share. `judged` holds a (connection, rule ID,
    ruling) for each check of an identity that belongs to a connection. `identity_checks` has the
    checks of identities among `checks`, by listener. `ranges_changes` counts, by listener, how often a server
    advertised ranges that it had not advertised before.
    """

    findings: list[Finding] = []
    checks: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    offences: Counter[Offence] = msgspec.field(default_factory=Counter)
    claims: list[Claim] = []
    judged: list[tuple[bytes, str, str]] = []
    ranges_changes: Counter[str] = msgspec.field(default_factory=Counter)
    identity_checks: dict[str, Counter[tuple[str, str]]] = {}

    def count(self, rule: Rule, judgement: Judgement) -> None:
        """Count one judgement."""
        self.checks[rule.id, str(judgement.ruling)] += judgement.count

    def count_checks(self, checks: Iterable[tuple[str, str]], count: int) -> None:
        """Count each check `count` times."""
        for check in checks:
            self.checks[check] += count

    def count_identity(self, rule: Rule, judgement: Judgement, listener: str) -> None:
        """Count one judgement of an identity, which was shown at a listener."""
        self.count(rule, judgement)
        checks = self.identity_checks.setdefault(listener, Counter())
        checks[rule.id, str(judgement.ruling)] += judgement.count

    def add(self, other: Outcome) -> None:
        """Add findings, claims and counts of another outcome, but for what it says of each identity."""
        self.findings.extend(other.findings)
        self.claims.extend(other.claims)
        self.ranges_changes.update(other.ranges_changes)
        self.checks.update(other.checks)
        self.offences.update(other.offences)

    def count_offence(self, finding: Finding) -> None:
        """Count the offences of a finding. One that only rises in level counts once at its new level."""
        name, version = finding.software
        level = SUPPRESSED if finding.suppressed else finding.level
        where = finding.cluster, finding.listener, finding.owner or None
        offence = Offence(finding.rule, level, finding.role, name, version, *where)
        self.offences[offence] += max(finding.occurrences, 1)

    def count_repetition(
        self,
        rule: Rule,
        judgement: Judgement,
        software: SoftwareClaim | None,
        known: Finding,
        owner: str | None,
    ) -> None:
        """Count the offences of a judgement that repeats a known finding of its connection."""
        level, role = judgement.level or rule.level, judgement.role or rule.role
        name, version = (software.name, software.version) if software else (None, None)
        offence = Offence(rule.id, level, role, name, version, known.cluster, known.listener, owner)
        self.offences[offence] += max(judgement.count, 1)
