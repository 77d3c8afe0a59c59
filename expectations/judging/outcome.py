"""The outcome of judging a window: findings to publish, claims on identities, and counts."""

from __future__ import annotations

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
    checks: dict[tuple[str, str], int] = {}
    offences: dict[Offence, int] = {}
    claims: list[Claim] = []
    judged: list[tuple[bytes, str, str]] = []
    ranges_changes: dict[str, int] = {}
    identity_checks: dict[str, dict[tuple[str, str], int]] = {}

    def count(self, rule: Rule, judgement: Judgement) -> None:
        """Count one judgement."""
        key = (rule.id, str(judgement.ruling))
        self.checks[key] = self.checks.get(key, 0) + judgement.count

    def count_checks(self, checks: Iterable[tuple[str, str]], count: int) -> None:
        """Count each check `count` times."""
        for check in checks:
            self.checks[check] = self.checks.get(check, 0) + count

    def count_identity(self, rule: Rule, judgement: Judgement, listener: str) -> None:
        """Count one judgement of an identity, which was shown at a listener."""
        self.count(rule, judgement)
        checks, key = self.identity_checks.setdefault(listener, {}), (rule.id, str(judgement.ruling))
        checks[key] = checks.get(key, 0) + judgement.count

    def add(self, other: Outcome) -> None:
        """Add findings, claims and counts of another outcome, but for what it says of each identity."""
        self.findings.extend(other.findings)
        self.claims.extend(other.claims)
        for listener, count in other.ranges_changes.items():
            self.ranges_changes[listener] = self.ranges_changes.get(listener, 0) + count
        for check, count in other.checks.items():
            self.checks[check] = self.checks.get(check, 0) + count
        for offence, count in other.offences.items():
            self.offences[offence] = self.offences.get(offence, 0) + count

    def count_offence(self, finding: Finding) -> None:
        """Count the offences of a finding. One that only rises in level counts once at its new level."""
        name, version = finding.client_software_name, finding.client_software_version
        level = SUPPRESSED if finding.suppressed else finding.level
        owner = finding.owner or None
        self._count_offence(
            Offence(
                finding.rule, level, finding.role, name, version, finding.cluster, finding.listener, owner
            ),
            finding.occurrences,
        )

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
        self._count_offence(offence, judgement.count)

    def _count_offence(self, offence: Offence, count: int) -> None:
        self.offences[offence] = self.offences.get(offence, 0) + max(count, 1)
