"""What users have decided about rules: how KIPs are read, what is off, of another level, or suppressed.

A suppressed finding is still found, counted and shown. A suppression says why it stands and until when,
so that it cannot outlive its reason unnoticed: past its day, or where it matches nothing, it is told of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

import msgspec

from expectations.conversation.observation import ClusterDescription
from expectations.judging.finding import Finding, Suppressed
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES
from expectations.rules.readings import read_choices, rules_read_as
from streaming.settings.configuration import Configuration, Suppression
from streaming.user_error import UserError


def utc_today() -> date:
    """Give the day it is, by which suppressions end everywhere at the same time."""
    return datetime.now(UTC).date()


class SuppressionUse(msgspec.Struct, frozen=True):
    """How often a suppression matched; `expired` ones match nothing any more."""

    suppression: Suppression
    expired: bool
    findings: int

    @property
    def complaint(self) -> str:
        """Say what is the matter with it; "" where nothing is."""
        if self.expired:
            return f"{_named(self.suppression)} ended on {self.suppression.until} and suppresses no more"
        return "" if self.findings else f"{_named(self.suppression)} matches no finding; it may be removed"


class Decisions:
    """The decisions of one configuration.

    Raises UserError where they name a rule or a reading that is none.
    """

    def __init__(self, configuration: Configuration, today: Callable[[], date] = utc_today) -> None:
        self._configuration = configuration
        self._today = today
        self._demand_rules()
        self.rules = self._rules()

    @property
    def disabled(self) -> list[str]:
        """The rules that are off."""
        return sorted(set(self._configuration.disable))

    @property
    def terms(self) -> Terms:
        """What judges go by, as it is configured."""
        listeners = self._configuration.listener
        return Terms(
            rules=self.rules,
            listeners={each.address: each.name for each in listeners if each.name},
            brokers={
                each.address: ClusterDescription(each.cluster_id, each.node_id)
                for each in listeners
                if each.cluster_id
            },
            decide=self.decide,
        )

    def decide(self, finding: Finding) -> Finding:
        """Give a finding its level, and why it is borne if it is today."""
        level = self._configuration.levels.get(finding.rule, finding.level)
        covering = self._covering(finding)
        borne = Suppressed(covering.reason, covering.until.isoformat()) if covering else msgspec.UNSET
        return msgspec.structs.replace(finding, level=str(level), suppressed=borne)

    def uses(self, findings: Sequence[Finding]) -> list[SuppressionUse]:
        """Tell of each suppression how many of these findings fall under it."""
        current, covering = self._current(), [self._covering(finding) for finding in findings]
        return [
            SuppressionUse(each, each not in current, sum(found is each for found in covering))
            for each in self._configuration.suppress
        ]

    def expired(self) -> list[str]:
        """Complain of the suppressions whose day is past, where it is not known what they would match."""
        return [use.complaint for use in self.uses([]) if use.expired]

    def _covering(self, finding: Finding) -> Suppression | None:
        return next((each for each in self._current() if _covers(each, finding)), None)

    def _current(self) -> list[Suppression]:
        today = self._today()
        return [each for each in self._configuration.suppress if today <= each.until]

    def _rules(self) -> list[Rule]:
        try:
            read = rules_read_as(read_choices(self._configuration.spec))
        except ValueError as error:
            raise UserError(f"spec: {error}") from None
        return [rule for rule in read if rule.id not in self._configuration.disable]

    def _demand_rules(self) -> None:
        known = {rule.id for rule in RULES}
        suppressed = (suppression.rule for suppression in self._configuration.suppress)
        for rule_id in (*self._configuration.disable, *self._configuration.levels, *suppressed):
            if rule_id not in known:
                raise UserError(f"the configuration names a rule {rule_id!r}; `kipwatch rules` lists them")


def _named(suppression: Suppression) -> str:
    return f"the suppression of {suppression.rule} ({suppression.reason})"


def _covers(suppression: Suppression, finding: Finding) -> bool:
    """Whether all that a suppression gives is so of a finding; an address may leave its port out."""
    addresses = ((suppression.client, finding.client), (suppression.broker, finding.broker))
    return (
        suppression.rule == finding.rule
        and suppression.client_software_name in (None, finding.client_software_name)
        and suppression.client_id in (None, finding.client_id)
        and all(given in (None, is_, is_.rpartition(":")[0]) for given, is_ in addresses)
    )
