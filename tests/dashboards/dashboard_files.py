"""The committed dashboards, read as Grafana reads them."""

from __future__ import annotations

import json
from typing import Any

from tests.dashboards.rule_file import REPOSITORY

DASHBOARDS: dict[str, dict[str, Any]] = {
    (read := json.loads(file.read_text()))["uid"]: read
    for file in sorted((REPOSITORY / "dashboards/generated").glob("*.json"))
}
PANELS: list[tuple[str, dict[str, Any]]] = [
    (uid, panel)
    for uid, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
CHOSEN = {"$job": ".+", "$rule": ".+", "$software": ".+"}
"""What Grafana puts in for the variables where all is chosen."""


def variables(uid: str) -> list[dict[str, Any]]:
    """The variables of a dashboard."""
    found: list[dict[str, Any]] = DASHBOARDS[uid]["templating"]["list"]
    return found


def queries(panel: dict[str, Any], *, span: str = "1h", rate: str = "5m") -> list[str]:
    """A panel's queries as Prometheus gets them, over a range and with a rate interval."""
    values = {"$__range": span, "$__rate_interval": rate, **CHOSEN}
    asked = []
    for target in panel["targets"]:
        expression: str = target["expr"]
        for name, value in values.items():
            expression = expression.replace(name, value)
        asked.append(expression)
    return asked
