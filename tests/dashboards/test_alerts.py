"""The alerts: accepted by Prometheus, firing and resolving as they should, each with a section to turn to."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboards.alert import DELAY_SECONDS
from dashboards.build import rule_groups
from dashboards.links import Addresses
from dashboards.protocol_alerts import MISROUTED, SHARED
from dashboards.runbook import PAGES, RUNBOOK, runbook
from expectations.judging.finding import runbook_anchor
from expectations.rules.catalogue import RULES as JUDGED
from streaming.metrics.definitions import DETECTION_DELAY
from tests.dashboards import rule_file
from tests.dashboards.dashboard_files import DASHBOARDS, variables
from tests.dashboards.prometheus import check_queries, promtool
from tests.dashboards.rule_file import ALERTS, CASES, NAMES, RULE_FILE
from tests.repository.tree import anchors

ALWAYS_FIRING = "KipwatchWatchdog"
PARTS = ["### Impact", "### Diagnosis", "### What to do", "### When to silence"]

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=[str(alert["alert"]) for alert in ALERTS])


def fires(moment: dict[str, Any]) -> bool:
    return bool(moment.get("exp_alerts"))


def test_prometheus_accepts_the_rule_file() -> None:
    """A rule file with an error keeps Prometheus from starting."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", RULE_FILE)


@pytest.mark.slow
@pytest.mark.parametrize("cases", CASES, ids=[case.stem for case in CASES])
def test_alerts_fire_resolve_and_stay_silent(cases: Path) -> None:
    """With every label and annotation in full."""
    promtool("test", "rules", cases)


@pytest.mark.parametrize("name", [name for name in NAMES if name != ALWAYS_FIRING])
def test_every_alert_has_a_case_that_fires_one_that_resolves_and_one_that_is_silent(name: str) -> None:
    """An alert that was never seen to resolve may fire for ever."""
    told = [[fires(moment) for moment in case["moments"]] for case in rule_file.cases(name)]
    assert any(any(moments) for moments in told)
    assert any((True, False) in itertools.pairwise(moments) for moments in told)
    assert any(not any(moments) for moments in told)


def test_every_window_of_the_budget_is_seen_to_fire() -> None:
    """They share a name, which the test above does not tell apart."""
    windows = {alert["labels"]["window"] for alert in ALERTS if "window" in alert["labels"]}
    seen = {
        expected["exp_labels"]["window"]
        for case in rule_file.cases("KipwatchDetectionDelayBudgetBurn")
        for moment in case["moments"]
        for expected in moment.get("exp_alerts", [])
    }
    assert seen == windows


@each_alert
def test_every_alert_says_what_is_wrong_and_where_to_look(alert: dict[str, Any]) -> None:
    """A summary without labels, a description, and two links; offences have a third one, to examples."""
    expected = {"summary", "description", "runbook_url", "dashboard_url"}
    if alert["labels"]["watches"] == "kafka" and alert["alert"] != "KafkaPolicyNotMet":
        expected.add("evidence_url")
    if alert["alert"] == "KafkaClientProtocolViolation" and "identified" not in alert["labels"]:
        expected |= {"versions", "connections"}
    assert set(alert["annotations"]) == expected
    assert "{{" not in alert["annotations"]["summary"]
    assert alert["labels"]["severity"] in ("critical", "warning", "info", "none")
    assert alert["labels"]["watches"] in ("kafka", "kipwatch")


@each_alert
def test_an_alert_about_kafka_outlasts_a_pause_of_the_client(alert: dict[str, Any]) -> None:
    """Otherwise a client that reconnects every ten minutes would wake people every ten minutes."""
    assert ("keep_firing_for" in alert) or alert["labels"]["watches"] == "kipwatch"


def test_every_alert_has_a_page_with_every_part() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == set(NAMES)
    for page in PAGES.glob("*.md"):
        text = page.read_text()
        assert [line for line in text.splitlines() if line.startswith("#")] == PARTS, page.stem
        diagnosis = text.partition(PARTS[1])[2].partition(PARTS[2])[0]
        assert "```promql\n" in diagnosis and "```\n\n```\n" in diagnosis, page.stem


def test_every_query_of_the_runbook_can_be_asked(tmp_path: Path) -> None:
    """Those of the alerts' pages and those of every rule."""
    pages = "".join(runbook(JUDGED).values())
    blocks = re.findall(r"```promql\n(.*?)```", pages, flags=re.DOTALL)
    asked = [line for block in blocks for line in block.splitlines()]
    assert len(asked) > len(JUDGED)
    check_queries(tmp_path, asked)


def test_every_runbook_link_resolves_in_the_repository() -> None:
    """Of alerts, and of the findings of every rule."""
    links = {runbook_anchor(rule) for rule in JUDGED}
    links |= {alert["annotations"]["runbook_url"] for alert in ALERTS}
    sections = anchors(Path(RUNBOOK))
    for link in links:
        path, _, anchor = link.partition("#")
        assert path == RUNBOOK
        if "{{" not in anchor:
            assert anchor in sections, link


def test_a_link_by_rule_leads_to_the_section_of_any_rule_that_the_alert_may_name() -> None:
    """The anchor that the template makes of the label is the one that findings carry."""
    by_rule = [alert for alert in ALERTS if "$labels.rule" in alert["annotations"]["runbook_url"]]
    assert len(by_rule) == 5
    for alert in by_rule:
        assert alert["annotations"]["runbook_url"].endswith('#{{ $labels.rule | reReplaceAll "/" "" }}')
    for rule in JUDGED:
        assert runbook_anchor(rule) == f"{RUNBOOK}#{rule.id.replace('/', '')}"


@each_alert
def test_every_dashboard_link_leads_to_a_dashboard_and_to_variables_that_exist(alert: dict[str, Any]) -> None:
    address = urlsplit(alert["annotations"]["dashboard_url"])
    uid = address.path.removeprefix("/d/")
    assert uid in DASHBOARDS
    chosen = {name.removeprefix("var-") for name in parse_qs(address.query) if name.startswith("var-")}
    assert chosen <= {variable["name"] for variable in variables(uid)}


def test_the_rules_that_alerts_name_exist() -> None:
    """An unknown rule ID in an expression would keep its alert silent for ever."""
    assert {*SHARED, MISROUTED} <= {rule.id for rule in JUDGED}


def test_the_objective_is_a_bucket_of_the_histogram() -> None:
    """Between two bounds of buckets nothing can be counted."""
    assert DELAY_SECONDS in DETECTION_DELAY.buckets


def test_own_places_are_written_into_every_link() -> None:
    """A platform team has its own Grafana, and its own place for the runbook."""
    addresses = Addresses("https://grafana.example", "https://wiki.example/runbook")
    alerts = [rule for group in rule_groups(addresses) for rule in group["rules"] if "alert" in rule]
    assert len(alerts) == len(ALERTS)
    for alert in alerts:
        assert alert["annotations"]["dashboard_url"].startswith("https://grafana.example/d/")
        assert alert["annotations"]["runbook_url"].startswith("https://wiki.example/runbook#")
