"""The demo as its observers saw it: Prometheus by its panels, and a webhook by its alerts.

Only intervals differ from the committed rules, routes and dashboards: violations resolve after seconds.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards.links import BROKERS, CLIENTS, CONFORMANCE, UPGRADE
from dashboards.protocol_alerts import CLIENT_VIOLATION, INSTANCE_ID_SHARED, MEMBER_ID_SHARED
from dashboards.queries import RANKS
from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from expectations.rules.base.rule import IdentityRule, Level, Role
from expectations.rules.catalogue import rule_named
from streaming.check.examination import examine
from streaming.metrics.labels import LABEL_LIMIT, UNKNOWN, SoftwareSlots
from tests.dashboards.prometheus import series_of
from tests.dashboards.stored_series import Stored
from tests.deploy.alertmanager import Notifications

RANGE = 1_200
"""Seconds before now that panels show."""
OWN_ALERTS = {
    INSTANCE_ID_SHARED: "KafkaClientInstanceIdShared",
    MEMBER_ID_SHARED: "KafkaMemberIdShared",
}


def quickly(rules: str) -> str:
    """The rule file with windows of 30 seconds instead of 5 minutes; alerts resolve after 5 seconds.

    A window stands in a rule twice: as a duration, and in seconds where it is compared with a series' birth.
    """
    shortened = re.sub(r"\b5m\b", "30s", re.sub(r"keep_firing_for: \w+", "keep_firing_for: 5s", rules))
    return re.sub(r"\btime\(\) - 300\b", "time() - 30", shortened)


@dataclass
class Seen:
    """What Prometheus and the webhook received while the demo played."""

    prometheus: str
    sent: Notifications
    findings: list[Finding]
    recording: Path

    def query(self, expression: str, *, over_time: bool) -> list[dict[str, Any]]:
        """Return the series of an expression. Fails if Prometheus refuses it."""
        return series_of(self.prometheus, expression, RANGE if over_time else 0)

    def alerts(self, status: str) -> set[tuple[str, str, str]]:
        """The alerts of one status that the webhook received: name, rule, client software."""
        return {
            tuple(alert["labels"].get(name, "") for name in ("alertname", "rule", "client_software_name"))
            for hook in self.sent.hooks
            for alert in hook["alerts"]
            if alert["status"] == status
        }

    def planted(self) -> set[tuple[str, str, str]]:
        """The alerts that the findings must cause."""
        return {alert_of(finding) for finding in self._violations()} - self.unidentified()

    def unidentified(self) -> set[tuple[str, str, str]]:
        """The alerts that no single offence may cause: those on clients that never said their name."""
        return {
            alert
            for alert in map(alert_of, self._violations())
            if alert[0] == CLIENT_VIOLATION and alert[2] == UNKNOWN
        }

    def _violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == Level.VIOLATION]


def alert_of(finding: Finding) -> tuple[str, str, str]:
    """The alert that a violation must cause: its name, rule and client software, if it names one."""
    if finding.rule in OWN_ALERTS:
        return OWN_ALERTS[finding.rule], finding.rule, ""
    if finding.role == Role.BROKER:
        return "KafkaBrokerProtocolViolation", finding.rule, ""
    software, _ = SoftwareSlots(LABEL_LIMIT, lambda _: None).admit(finding.client_software_name, None)
    return CLIENT_VIOLATION, finding.rule, software


def settles(rule: str) -> bool:
    """Whether checks of a rule are counted when identities settle: in minutes, for `check` at the end."""
    return isinstance(rule_named(rule), IdentityRule)


def counted(recording: Path) -> dict[str, Any]:
    """What panels must say, as `check` counts it: without the query, its metrics and Prometheus."""
    schemas = default_schemas()
    examined = examine(recording, schemas)
    slots = SoftwareSlots(LABEL_LIMIT, lambda _: None)
    offences: Counter[tuple[str, str, str, int]] = Counter()
    clients: dict[str, set[tuple[str, str]]] = {level: set() for level in RANKS}
    for finding in examined.findings:
        software = slots.admit(finding.client_software_name, finding.client_software_version)
        offences[*software, finding.rule, RANKS[finding.level]] += finding.occurrences
        if finding.role == Role.CLIENT:
            clients[finding.level].add(software)
    requests, names = Counter[tuple[str, str]](), schemas.api_names
    for _, _, usage in examined.usage:
        for (key, version), count in usage.uses.items():
            if key in names:  # The panel shows APIs that the schemas have.
                requests[names[key], str(version)] += count.requests
    violations = sum(times for (*_, rank), times in offences.items() if rank == RANKS[Level.VIOLATION])
    return {
        "offences": offences,
        "violations": violations,
        "violating": len(clients[Level.VIOLATION]),
        "at risk": len(clients[Level.IMPROVEMENT]),
        "requests": requests,
        "brokers": len({broker.address for broker in examined.brokers}),
        "exercised": {each.rule for each in examined.coverage if each.exercised and not settles(each.rule)},
    }


def shown(prometheus: str) -> dict[str, Any]:
    """What panels say now."""
    now = Stored(prometheus, int(time.time()))
    span = f"{RANGE}s"
    found = now.rows(CONFORMANCE, "Offences", span=span)
    sent: Counter[tuple[str, str]] = Counter()
    for row in now.rows(UPGRADE, "Requests by software and version", span=span):
        sent[row["API"], row["Version"]] += int(row["Requests"])
    covered = now.rows(CONFORMANCE, "Coverage", span=span)
    return {
        "offences": {
            (row["Client"], row["Version"], row["Rule"], row["Level"]): row["Offences"] for row in found
        },
        "violations": now.figure(CONFORMANCE, "Violations", span=span),
        "violating": now.figure(CLIENTS, "Versions that violate", span=span),
        "at risk": now.figure(CLIENTS, "Versions at risk", span=span),
        "requests": sent,
        "brokers": now.figure(BROKERS, "Brokers", span=span),
        "exercised": {row["Rule"] for row in covered if row["Exercised"] and not settles(row["Rule"])},
    }
