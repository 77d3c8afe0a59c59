"""What an alert is: when it fires, how severe it is, what it says and where it links to."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Severity(enum.StrEnum):
    """Who is notified: CRITICAL pages somebody, WARNING goes to the team, INFO can be read later."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NONE = "none"


class Watches(enum.StrEnum):
    """What is wrong if the alert fires: the Kafka that is watched, or the watcher."""

    KAFKA = "kafka"
    KIPWATCH = "kipwatch"


BLIND = {"blind": "true"}
"""The label of alerts that say that nothing is judged: other alerts and their end mean nothing then."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `summary` is the same for all that it fires for; `description` names them.

    `wait` and `keep` are Prometheus' `for` and `keep_firing_for`.
    """

    name: str
    watches: Watches
    severity: Severity
    expression: str
    summary: str
    description: str
    runbook: str
    dashboard: str
    wait: str = ""
    keep: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    def rule(self) -> dict[str, Any]:
        """The alert as Prometheus reads it."""
        timing = {"for": self.wait, "keep_firing_for": self.keep}
        return {
            "alert": self.name,
            "expr": self.expression,
            **{name: duration for name, duration in timing.items() if duration},
            "labels": {
                "severity": str(self.severity),
                "watches": str(self.watches),
                **self.labels,
            },
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": self.runbook,
                "dashboard_url": self.dashboard,
            },
        }
