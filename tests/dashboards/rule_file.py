"""The committed rule file, and its cases for promtool."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml

from dashboards.runbook import RUNBOOK

REPOSITORY = Path(__file__).parents[2]
RULE_FILE = REPOSITORY / "dashboards/generated/alerts.yml"
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


def runbook_anchors() -> set[str]:
    """The anchors that a Markdown renderer makes of the runbook's headings."""
    headings = re.findall(r"^#+ (.+)$", (REPOSITORY / RUNBOOK).read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
