"""Users' decisions on rules: readings of KIPs, disabled rules, other levels, suppressed findings.

A suppressed finding is still made, counted and shown. A suppression has a reason and an end, so that it
cannot outlive its reason unnoticed: kipwatch warns when it has expired, or matches nothing.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime

import msgspec

from expectations.conversation.bodies import NO_NODE, ClusterDescription
from expectations.judging.finding import Finding, Suppressed
from expectations.judging.terms import Terms, as_found
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES
from expectations.rules.readings import read_choices, rules_read_as
from streaming.settings.configuration import Configuration, Listener, Suppression
from streaming.settings.pseudonyms import pseudonyms_of
from streaming.settings.suppression_match import SuppressionMatch
from streaming.user_error import UserError, did_you_mean


def utc_today() -> date:
    """Return the present day in UTC, so that suppressions end everywhere at the same time."""
    return datetime.now(UTC).date()


class SuppressionUse(msgspec.Struct, frozen=True):
    """How many findings a suppression matched; an expired one matches none."""

    suppression: Suppression
    expired: bool
    findings: int

    @property
    def warning(self) -> str:
        """Why the suppression should be removed; "" if it matches."""
        if self.expired:
            return f"{_named(self.suppression)} expired on {self.suppression.until}"
        return "" if self.findings else f"{_named(self.suppression)} matches no finding"


class Decisions:
    """The decisions of one configuration.

    Raises UserError if they name a rule, a reading or a network that does not exist, or have no usable key of
    pseudonyms.
    """

    def __init__(self, configuration: Configuration, today: Callable[[], date] = utc_today) -> None:
        self._configuration = configuration
        self._today = today
        self._pseudonyms = pseudonyms_of(configuration)
        self._matches = [SuppressionMatch(each, self._pseudonyms) for each in configuration.suppress]
        self._check_rule_names()
        self.rules = self._rules()

    @property
    def disabled(self) -> list[str]:
        """The IDs of the disabled rules."""
        return sorted(set(self._configuration.disable))

    @property
    def terms(self) -> Terms:
        """The configured terms of judging."""
        listeners = self._configuration.listener
        return Terms(
            rules=self.rules,
            listeners={each.address: each.name for each in listeners if each.name},
            brokers={
                each.address: ClusterDescription(each.cluster_id, _node_id(each))
                for each in listeners
                if each.cluster_id
            },
            decide=self.decide if self._configuration.levels or self._configuration.suppress else as_found,
            pseudonyms=self._pseudonyms,
        )

    def decide(self, finding: Finding) -> Finding:
        """Return a finding with its configured level, and with its suppression if one applies today."""
        level = self._configuration.levels.get(finding.rule, finding.level)
        covering = self._covering(finding)
        suppressed = Suppressed(covering.reason, covering.until.isoformat()) if covering else msgspec.UNSET
        return msgspec.structs.replace(finding, level=str(level), suppressed=suppressed)

    def uses(self, findings: Sequence[Finding]) -> list[SuppressionUse]:
        """Return each suppression with the number of these findings that it matches."""
        today, covering = self._today(), [self._covering(finding) for finding in findings]
        return [
            SuppressionUse(each, each.until < today, sum(found is each for found in covering))
            for each in self._configuration.suppress
        ]

    def expired(self) -> list[str]:
        """Return the warnings of expired suppressions, before any findings are known."""
        return [use.warning for use in self.uses([]) if use.expired]

    def _covering(self, finding: Finding) -> Suppression | None:
        today = self._today()
        return next(
            (
                match.suppression
                for match in self._matches
                if today <= match.suppression.until and match.covers(finding)
            ),
            None,
        )

    def _rules(self) -> list[Rule]:
        try:
            read = rules_read_as(read_choices(self._configuration.spec))
        except ValueError as error:
            raise UserError(f"spec: {error}") from None
        return [rule for rule in read if rule.id not in self._configuration.disable]

    def _check_rule_names(self) -> None:
        known = {rule.id for rule in RULES}
        configuration = self._configuration
        named = {
            "disable": configuration.disable,
            "levels": configuration.levels,
            "suppress": self._suppressed(known),
        }
        for key, rule_ids in named.items():
            for rule_id in rule_ids:
                if rule_id not in known:
                    hint = did_you_mean(rule_id, known, "`kipwatch rules` lists them", cutoff=0.8)
                    raise UserError(f"{key}: the configuration names a rule {rule_id!r}; {hint}")

    def _suppressed(self, known: Collection[str]) -> list[str]:
        """Return the rules of suppressions, a pattern itself if it matches none."""
        patterns = (suppression.rule for suppression in self._configuration.suppress)
        return [found for pattern in patterns for found in fnmatch.filter(known, pattern) or [pattern]]


def _node_id(listener: Listener) -> int:
    return NO_NODE if listener.node_id is None else listener.node_id


def _named(suppression: Suppression) -> str:
    return f"the suppression of {suppression.rule} ({suppression.reason})"
