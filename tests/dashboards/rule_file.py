"""The committed rule file, and its cases for promtool."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from tests.repository.tree import ROOT

RULE_FILE = ROOT / "dashboards/generated/alerts.yml"
CASES = sorted(Path(__file__).parent.glob("*_test.yml"))

RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULE_FILE.read_text())["groups"] for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDINGS = [rule for rule in RULES if "record" in rule]
NAMES = sorted({alert["alert"] for alert in ALERTS})


@functools.cache
def _tests() -> list[dict[str, Any]]:
    return [test for file in CASES for test in yaml.safe_load(file.read_text())["tests"]]


def cases(name: str) -> list[dict[str, Any]]:
    """The tests of an alert: for each, the moments at which it is asked for, in order."""
    asked = [
        [moment for moment in test.get("alert_rule_test", []) if moment["alertname"] == name]
        for test in _tests()
    ]
    return [{"moments": moments} for moments in asked if moments]
