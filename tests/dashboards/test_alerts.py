"""The alerts: accepted by Prometheus, firing and resolving as they should, each with a section to turn to."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dashboards import alerts, queries
from dashboards.runbook import PAGES, RUNBOOK
from expectations.catalogue import RULES
from expectations.finding import runbook_anchor
from expectations.rule import Level
from tests.dashboards.prometheus import promtool

REPOSITORY = Path(__file__).parents[2]
RULE_FILE = REPOSITORY / "dashboards/generated/alerts.yml"


def alert_rules() -> list[dict[str, object]]:
    groups = yaml.safe_load(RULE_FILE.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def anchors() -> set[str]:
    """The runbook's anchors, as a Markdown renderer makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", (REPOSITORY / RUNBOOK).read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_prometheus_accepts_the_rule_file() -> None:
    """A rule file with an error keeps Prometheus from starting."""
    promtool("check", "rules", RULE_FILE)


def test_alerts_fire_resolve_and_stay_silent() -> None:
    """The cases stand in alerts_test.yml, with every label and annotation in full."""
    promtool("test", "rules", Path(__file__).with_name("alerts_test.yml"))


def test_only_rules_of_level_violation_wake_people() -> None:
    """A recommendation is shown on the dashboard and pages nobody."""
    pattern = re.compile(queries.ids_of_level(RULES, Level.VIOLATION))
    for rule in RULES:
        assert bool(pattern.fullmatch(rule.id)) == (rule.level is Level.VIOLATION), rule.id


def test_every_alert_says_what_to_do() -> None:
    """Severity, constant summary, description, and a page of its own in the runbook."""
    assert {rule["alert"] for rule in alert_rules()} == {page.stem for page in PAGES.glob("*.md")}
    for rule in alert_rules():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert "{{" not in annotations["summary"]
        assert set(annotations) == {"summary", "description", "runbook_url"}
        assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})


def test_every_runbook_link_resolves_in_the_repository() -> None:
    """Of alerts, and of the findings of every rule."""
    links = [runbook_anchor(rule.id) for rule in RULES]
    links += [f"{RUNBOOK}#{str(rule['alert']).lower()}" for rule in alert_rules()]
    for link in links:
        path, _, anchor = link.partition("#")
        assert path == RUNBOOK
        assert anchor in anchors(), link


def test_the_builder_and_the_committed_file_agree_on_what_is_judged() -> None:
    """No rule of level violation is missing from the alert's expression."""
    (protocol,) = (rule for rule in alert_rules() if rule["alert"] == "KafkaProtocolViolation")
    for rule in RULES:
        assert (rule.id in str(protocol["expr"])) == (rule.level is Level.VIOLATION), rule.id
    assert alerts.groups(RULES) == yaml.safe_load(RULE_FILE.read_text())
