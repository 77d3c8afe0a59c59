"""What users have decided about rules: which are off, what they weigh, which findings are known and borne.

A suppressed finding is still found, counted and shown. A suppression says why it stands and until when,
so that it cannot outlive its reason unnoticed: past its day, or where it matches nothing, it is told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import msgspec

from expectations.catalogue import RULES
from expectations.finding import Finding
from expectations.rule import Rule
from streaming.configuration import Configuration, Suppression
from streaming.failure import UserError


class Suppressed(msgspec.Struct, frozen=True):
    """A finding that a user has chosen to bear, and why."""

    finding: Finding
    suppression: Suppression


class SuppressionUse(msgspec.Struct, frozen=True):
    """How often a suppression matched; `expired` ones match nothing any more."""

    suppression: Suppression
    expired: bool
    findings: int

    @property
    def complaint(self) -> str:
        """Say what is the matter with it; "" where nothing is."""
        named = f"the suppression of {self.suppression.rule} ({self.suppression.reason})"
        if self.expired:
            return f"{named} ended on {self.suppression.until} and suppresses no more"
        return "" if self.findings else f"{named} matches no finding; it may be removed"


class Ruling(msgspec.Struct, frozen=True):
    """Findings as the user's decisions leave them."""

    findings: list[Finding]
    suppressed: list[Suppressed]
    suppressions: list[SuppressionUse]


class Decisions:
    """The decisions of one configuration. Raises UserError where they name a rule that is none."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        named = [
            *configuration.disable,
            *configuration.levels,
            *(suppression.rule for suppression in configuration.suppress),
        ]
        for rule_id in named:
            if rule_id not in {rule.id for rule in RULES}:
                raise UserError(f"the configuration names a rule {rule_id!r}; `kipwatch rules` lists them")

    @property
    def disabled(self) -> list[str]:
        """The rules that are off."""
        return sorted(set(self._configuration.disable))

    def rules(self, rules: Iterable[Rule]) -> list[Rule]:
        """Leave out the rules that are off."""
        return [rule for rule in rules if rule.id not in self._configuration.disable]

    def rule_on(self, findings: Sequence[Finding], today: date) -> Ruling:
        """Give findings their levels, and set apart those that are suppressed."""
        current = [each for each in self._configuration.suppress if today <= each.until]
        kept: list[Finding] = []
        suppressed: list[Suppressed] = []
        for finding in map(self._levelled, findings):
            match = next((each for each in current if _matches(each, finding)), None)
            if match is None:
                kept.append(finding)
            else:
                suppressed.append(Suppressed(finding, match))
        return Ruling(
            kept, suppressed, [self._use(each, today, suppressed) for each in self._configuration.suppress]
        )

    def _levelled(self, finding: Finding) -> Finding:
        level = self._configuration.levels.get(finding.rule)
        return finding if level is None else msgspec.structs.replace(finding, level=str(level))

    def _use(self, suppression: Suppression, today: date, suppressed: Sequence[Suppressed]) -> SuppressionUse:
        count = sum(each.suppression is suppression for each in suppressed)
        return SuppressionUse(suppression, today > suppression.until, count)


def _matches(suppression: Suppression, finding: Finding) -> bool:
    """Whether all that a suppression gives is so of a finding; an address may leave its port out."""
    addresses = ((suppression.client, finding.client), (suppression.broker, finding.broker))
    return (
        suppression.rule == finding.rule
        and suppression.client_software_name in (None, finding.client_software_name)
        and suppression.client_id in (None, finding.client_id)
        and all(given in (None, is_, is_.rpartition(":")[0]) for given, is_ in addresses)
    )
