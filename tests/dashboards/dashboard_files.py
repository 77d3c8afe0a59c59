"""The committed dashboards, read as Grafana reads them."""

from __future__ import annotations

import json
from typing import Any

from dashboards.promql import seconds_of
from tests.repository.tree import ROOT

DASHBOARDS: dict[str, dict[str, Any]] = {
    (read := json.loads(file.read_text()))["uid"]: read
    for file in sorted((ROOT / "dashboards/generated").glob("*.json"))
}


def everything_on(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows and panels of a dashboard, those of collapsed rows included."""
    return [each for row in dashboard["panels"] for each in (row, *row.get("panels", []))]


PANELS: list[tuple[str, dict[str, Any]]] = [
    (uid, panel)
    for uid, dashboard in DASHBOARDS.items()
    for panel in everything_on(dashboard)
    if panel["type"] != "row"
]
CHOSEN = {"$job": ".+", "$rule": ".+", "$software": ".+", "$instance": ".+", "$cluster": ".*", "$owner": ".*"}
"""The values of the variables when all is chosen."""


def variables(uid: str) -> list[dict[str, Any]]:
    """The variables of a dashboard."""
    found: list[dict[str, Any]] = DASHBOARDS[uid]["templating"]["list"]
    return found


def queries(panel: dict[str, Any], *, span: str = "1h", rate: str = "5m") -> list[str]:
    """Return a panel's queries as Prometheus gets them, for a range and a rate interval."""
    return [filled(target["expr"], span=span, rate=rate) for target in panel["targets"]]


def filled(expression: str, *, span: str = "1h", rate: str = "5m", interval: str = "1m") -> str:
    """Fill in Grafana's own variables and those of the dashboard, with all chosen."""
    values = {
        "$__range_s": seconds_of(span),
        "$__range": span,
        "$__rate_interval": rate,
        "$__interval_ms": f"{seconds_of(interval)}000",
        "$__interval": interval,
        **CHOSEN,
    }
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def leads(panel: dict[str, Any]) -> list[str]:
    """The addresses that a panel's cells lead to."""
    return [
        link["url"]
        for override in panel["fieldConfig"]["overrides"]
        for changed in override["properties"]
        if changed["id"] == "links"
        for link in changed["value"]
    ]
