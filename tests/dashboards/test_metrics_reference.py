"""The page of metrics: each is listed once, where it is served, with the alerts that read it."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry

from dashboards.metrics_reference import metrics_reference
from streaming.feeder.feeder_metrics import FeederMetrics
from streaming.metrics.definitions import BUILD_INFO
from streaming.query.application_metrics import ApplicationMetrics

PARTS = dict(re.findall(r"^## (Of .*?)\n(.*?)(?=^## |\Z)", metrics_reference(), re.DOTALL | re.MULTILINE))
ENTRIES = {
    title: dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", part, re.S | re.M))
    for title, part in PARTS.items()
}


def names(registry: CollectorRegistry) -> set[str]:
    """The names of a page but for that which both have."""
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()
    }
    return served - {BUILD_INFO.name}


@pytest.mark.parametrize(
    ("part", "registry"),
    [
        ("Of the query", ApplicationMetrics([], version="", kafka="", label_limit=1).registry),
        ("Of the feeder", FeederMetrics(version="", kafka="").registry),
    ],
    ids=["query", "feeder"],
)
def test_each_metric_is_listed_with_what_serves_it(part: str, registry: CollectorRegistry) -> None:
    assert set(ENTRIES[part]) == names(registry)


def test_an_entry_names_labels_and_alerts_also_those_that_read_a_recorded_series() -> None:
    entries = ENTRIES["Of the query"]
    assert "*counter; labels `rule`, `verdict`, `listener`*" in entries["kipwatch_rule_checks_total"]
    assert entries["kipwatch_findings_total"].count("[KafkaClientProtocolViolation](") == 1
    assert "[KipwatchDetectionDelayBudgetBurn](" in entries["kipwatch_detection_delay_seconds"]
    assert "Alerts" not in entries["kipwatch_state_bytes"]
