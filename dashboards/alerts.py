"""The rule file of Prometheus: recording rules, and the alerts that go by them."""

from __future__ import annotations

from typing import Any

from dashboards import monitor_alerts, presence_alerts, protocol_alerts, recordings
from dashboards.alert import Alert
from dashboards.links import Places


def alerts(places: Places) -> list[Alert]:
    """Every alert."""
    return [*protocol_alerts.alerts(places), *presence_alerts.alerts(places), *monitor_alerts.alerts(places)]


def groups(places: Places) -> dict[str, Any]:
    """The rule file, as Prometheus reads it once it is written as YAML."""
    return {
        "groups": [
            *recordings.groups(),
            _group("kipwatch-protocol", protocol_alerts.alerts(places)),
            _group("kipwatch-presence", presence_alerts.alerts(places)),
            _group("kipwatch-monitor", monitor_alerts.alerts(places)),
        ]
    }


def _group(name: str, alerts: list[Alert]) -> dict[str, Any]:
    return {"name": name, "rules": [alert.rule() for alert in alerts]}
