"""Alerts, and every number that decides when one fires or a figure changes its colour.

Alerts and dashboards take these numbers from here. The pages of the runbook state them in words.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from dashboards.links import Addresses

STALLED_AFTER = 120
"""Seconds without a batch. A batch is due every few seconds, also without traffic."""
BEGUN_WITHIN = "6m"
"""How long the first batch, in which Spark starts, may take: longer than /healthz allows."""
FIRST_BATCH = "10m"
"""How far back to look for a first batch: longer, so that repeated restarts count as one start."""
SLOW_BATCH_AFTER = 30
"""Seconds without a batch that are worth a look."""
KEEP_FIRING = "15m"
"""Longer than the pauses of a client that reconnects now and then, so that it alerts once."""
KNOWN_FOR = "7d"
"""How far back to look for earlier offences of a software, and for the coverage of a rule."""
NEW_FOR = "1h"
"""How long a software counts as newly violating."""
UNIDENTIFIED_FOR = "2h"
UNIDENTIFIED_TIMES = 6
"""Periods of five minutes in which connections without a name must offend. A scan takes one or two."""
MISROUTED_STORM = 50
"""Misrouted connections in five minutes. One or two are a client that follows a broker's move."""
UNDECODABLE_SHARE = 0.01
"""Of all frames. Fewer are of one odd client, more show a release or a filter that does not fit."""
LOST_SHARE = 0.001
"""Of the bytes that passed. Each gap leaves the checks around it undecided."""
CONTRADICTIONS = 10
"""Segments in fifteen minutes that contradict others. A few are an odd network stack or a late packet."""
TRAFFIC_WINDOW = "10m"
"""Clients ask for metadata every five minutes, so a port that is in use carries frames in any ten minutes."""
WITHOUT_TRAFFIC = "15m"
"""How long each such window must be empty. Longer, so that one connection of a scanner fires nothing."""
KEY_LOG_WORKED_WITHIN = "1d"
"""A key log with secrets within this time is expected to have those of new connections."""
WITHOUT_KEYS = "5m"
"""How long no new connection may be read: a restart of a broker and its clients takes minutes."""
WATCH_AWAY = 900
"""Seconds without a word of Kubernetes' API, which says something each minute. A restart takes a few."""
VALIDATED_WITHIN = "1h"
"""How far back a sample that did not meet an expectation counts. The next one may meet it by chance."""
GROWING_LAG = 10_000
"""Frames that wait. A backlog below it is gone in a batch or two."""
EXERCISED_HOURS = 0.5
"""Of the hours of a week. A rule exercised in more of them is expected to be exercised each day."""
DELAY_SECONDS = 10
"""The objective: a frame is judged within this many seconds of its capture; a bucket of the histogram."""
DELAY_OBJECTIVE = 0.99
"""The share of frames that must meet it, over 30 days."""
BURN_RATES = (("5m", "1h", 14.4), ("30m", "6h", 6.0), ("2h", "1d", 3.0), ("6h", "3d", 1.0))
"""Short window, long window, and how many times faster than allowed the budget is spent.

The first two spend 2 % and 5 % of a 30-day budget in the long window, the others 10 %: the usual rates of
multi-window alerts. The short window lets the alert end soon after the trouble does.
"""


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
"""The label of alerts on a kipwatch that judges nothing. While one fires, no other alert means anything."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `summary` is the same for all series that it fires for, and `description` names them.

    It leads to `dashboard`, whose `variables` are set to the alert's labels of these names; to `section`, an
    anchor of the runbook, by default its own; and, if `findings` is an anchor of the application's page, to
    those. `details` are further annotations, for the templates of notifications. `wait` and `keep` are
    Prometheus' `for` and `keep_firing_for`.
    """

    name: str
    severity: Severity
    expression: str
    watches: Watches
    summary: str
    description: str
    dashboard: str
    variables: tuple[str, ...] = ()
    section: str = ""
    findings: str = ""
    wait: str = ""
    keep: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    def anchor(self) -> str:
        """Return the anchor of its section of the runbook."""
        return self.section or self.name.lower()

    def rule(self, addresses: Addresses) -> dict[str, Any]:
        """Return the alert in the form of a rule file."""
        details = dict(self.details)
        if self.findings:
            details["evidence_url"] = addresses.findings(self.findings)
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
                "runbook_url": addresses.section(self.anchor()),
                "dashboard_url": addresses.dashboard(self.dashboard, *self.variables),
                **details,
            },
        }
