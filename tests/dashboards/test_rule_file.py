"""A lint of the rule file, for mistakes that promtool accepts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dashboards.promql import seconds_of
from streaming.metrics.definitions import METRICS, MetricType
from tests.dashboards import rule_file
from tests.dashboards.dashboard_files import PANELS
from tests.dashboards.rule_file import ALERTS, RECORDINGS, RULES

SHORTEST_RANGE = 60
"""Seconds: four scrapes of the committed Prometheus, so that a missed one leaves no gap."""
NAMED = {metric.name: metric for metric in METRICS}

each_rule = pytest.mark.parametrize(
    "rule", RULES, ids=[rule.get("alert") or rule["record"] for rule in RULES]
)
each_recording = pytest.mark.parametrize(
    "recording", RECORDINGS, ids=[recording["record"] for recording in RECORDINGS]
)


def metrics_in(expression: str) -> list[str]:
    """The metrics that an expression selects, recorded series left out."""
    return re.findall(r"(?<![\w:])kipwatch_\w+(?![\w:])", expression)


@each_rule
def test_every_series_that_is_asked_for_exists(rule: dict[str, Any]) -> None:
    """A metric of an exporter, or recorded before."""
    for name in metrics_in(rule["expr"]):
        assert re.sub("_(bucket|count)$", "", name.replace("_created", "_total")) in NAMED
    recorded = {recording["record"] for recording in RECORDINGS}
    assert set(re.findall(r"\w+:kipwatch_\w+:\w+", rule["expr"])) <= recorded


@each_rule
def test_a_counter_is_asked_for_its_growth_alone(rule: dict[str, Any]) -> None:
    """Its value is the start of the process, not an event."""
    counters = [name for name, metric in NAMED.items() if metric.kind is MetricType.COUNTER]
    for match in re.finditer(rf"(\w*)\(?({'|'.join(counters)})(\{{[^}}]*\}})?( offset)?", rule["expr"]):
        grown = match[1] in ("rate", "increase", "max_over_time", "resets")
        assert grown or match[4], match[0]


@each_rule
def test_a_gauge_is_never_asked_for_its_rate(rule: dict[str, Any]) -> None:
    for gauge in (name for name, metric in NAMED.items() if metric.kind is MetricType.GAUGE):
        assert not re.search(rf"(rate|increase)\({gauge}\b", rule["expr"])


@each_rule
def test_a_range_holds_several_scrapes(rule: dict[str, Any]) -> None:
    for window in re.findall(r"\[(\d+[smhd])\]", rule["expr"]):
        assert int(seconds_of(window)) >= SHORTEST_RANGE


@each_recording
def test_a_recording_is_named_by_its_level_its_metric_and_its_operation(recording: dict[str, Any]) -> None:
    """The metric in its name is in its expression."""
    level, metric, operation = recording["record"].split(":")
    assert re.fullmatch(r"(rule|job|instance)(_software|_listener)?", level)
    assert re.search(r"\d[smhd]$", operation)
    stems = [re.sub("_(total|seconds|bytes).*$", "", name) for name in metrics_in(recording["expr"])]
    assert any(metric.startswith(stem) for stem in stems)
    assert level.partition("_")[0] in recording["expr"]


@each_recording
def test_every_recording_is_used(recording: dict[str, Any]) -> None:
    queries = [rule["expr"] for rule in RULES]
    queries += [text for rule in RULES for text in rule.get("annotations", {}).values()]
    queries += [target["expr"] for _, panel in PANELS for target in panel["targets"]]
    assert any(recording["record"] in query for query in queries)


def test_no_recording_is_made_twice() -> None:
    names = [recording["record"] for recording in RECORDINGS]
    assert len(names) == len(set(names))


def test_every_label_that_an_annotation_names_is_on_the_alert() -> None:
    """A template writes nothing in place of a missing label."""
    for alert in ALERTS:
        needed = {
            label
            for annotation in alert["annotations"].values()
            for label in re.findall(r"\$labels\.(\w+)", annotation)
        }
        for case in rule_file.cases(alert["alert"]):
            for moment in case["moments"]:
                for fired in moment.get("exp_alerts", []):
                    assert needed <= fired["exp_labels"].keys(), alert["alert"]


def test_every_alert_compares_or_asks_for_what_is_missing() -> None:
    """Otherwise it would fire as long as its series exists, as only the watchdog should."""
    always = [
        alert["alert"] for alert in ALERTS if not re.search(r" (>|<|==|!=|unless) |absent", alert["expr"])
    ]
    assert always == ["KipwatchWatchdog"]
