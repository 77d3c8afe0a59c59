"""What wakes people: Prometheus alerts, and the recording rules that dashboards draw from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashboards import queries
from dashboards.runbook import RUNBOOK
from expectations.rule import Level, Rule
from streaming import metrics

STALLED_AFTER = 120
"""Seconds without a batch. A batch is due every few seconds, also when there is no traffic."""
KEEP_FIRING = "15m"
"""Outlasts the pauses of a client that reconnects now and then, so that it wakes people once."""


def groups(rules: Iterable[Rule]) -> dict[str, Any]:
    """The rule file, as Prometheus reads it once it is written as YAML."""
    violation_rules = queries.ids_of_level(rules, Level.VIOLATION)
    return {
        "groups": [
            {"name": "kipwatch-states", "rules": [_rule_state(violation_rules)]},
            {"name": "kipwatch-protocol", "rules": [_protocol_violation(violation_rules)]},
            {"name": "kipwatch-monitor", "rules": [_stalled()]},
        ]
    }


def _rule_state(violation_rules: str) -> dict[str, Any]:
    return {"record": queries.RULE_STATE, "expr": queries.state_in_5_minutes(violation_rules)}


def _protocol_violation(violation_rules: str) -> dict[str, Any]:
    return {
        "alert": "KafkaProtocolViolation",
        "expr": f"{queries.violations_in_5_minutes(violation_rules)} > 0",
        "keep_firing_for": KEEP_FIRING,
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": "A Kafka client or broker breaks a rule of the protocol.",
            "description": (
                '{{ $labels.rule }} was broken about {{ printf "%.0f" $value }} times in 5 minutes. '
                "The Conformance dashboard tells which client software; the topic kipwatch.findings "
                "holds the connections and the bytes."
            ),
            "runbook_url": RUNBOOK + '#{{ $labels.rule | reReplaceAll "/" "" }}',
        },
    }


def _stalled() -> dict[str, Any]:
    unreachable = f"absent({metrics.LAST_BATCH_TIMESTAMP.name})"
    return {
        "alert": "KipwatchStalled",
        "expr": f"({queries.SECONDS_SINCE_BATCH} > {STALLED_AFTER}) or {unreachable}",
        "for": "1m",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "kipwatch judges nothing: no violation would be seen.",
            "description": (
                f"No batch was finished for {STALLED_AFTER} seconds, or Prometheus cannot reach the "
                "application. Until it is back, the absence of violations means nothing."
            ),
            "runbook_url": f"{RUNBOOK}#kipwatchstalled",
        },
    }
