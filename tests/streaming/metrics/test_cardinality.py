"""A fleet of hostile size, from findings to the metrics page: few series, and not one occurrence lost."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_type_hints

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from expectations.judging.finding import Finding, PublishedEvidence
from expectations.judging.outcome import Outcome
from streaming.judging.report import OpenConnections, Report
from streaming.judging.tally import Tally
from streaming.query.application_metrics import ApplicationMetrics, MetricsSink

CLIENTS, NAMES, LIMIT = 1_000_000, 10_000, 100
EACH = CLIENTS // NAMES
RULE = "kip35/version-out-of-range"

Page = dict[str, dict[tuple[str, ...], float]]


def finding() -> Finding:
    """A finding whose other fields are empty."""
    empty: dict[Any, Any] = {
        str: "",
        int: 0,
        dict[str, str]: {},
        PublishedEvidence: PublishedEvidence(source="", bytes=""),
    }
    fields: dict[str, Any] = {name: empty.get(kind) for name, kind in get_type_hints(Finding).items()}
    return Finding(**fields | {"rule": RULE, "level": "violation", "role": "client", "occurrences": 1})


def report() -> Report:
    """A finding for each client, all with client IDs of their own, and a connection for each."""
    outcome, one = Outcome(checks=Counter({(RULE, "violates"): CLIENTS})), finding()
    for client in range(CLIENTS):
        one.client_id, one.client_software_name = f"client-{client}", f"software-{client % NAMES}"
        one.client_software_version = "1.0"
        outcome.count_offence(one)
    tally = Tally({})
    tally.add(outcome, "WATCHED")
    made = tally.report(0)
    made.open_connections = [
        OpenConnections(f"software-{name}", "1.0", "WATCHED", EACH) for name in range(NAMES)
    ]
    # As a worker of Spark sends it to the driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Report)


@pytest.fixture(scope="module")
def page() -> Page:
    metrics = ApplicationMetrics([RULE], version="0.1.0", kafka="4.4.0", label_limit=LIMIT)
    MetricsSink(metrics).add_batch(0, [report()])
    samples: Page = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return samples


@pytest.mark.parametrize("name", ["kipwatch_findings_total", "kipwatch_connections"])
def test_series_stay_under_the_cap_and_sums_are_exact(page: Page, name: str) -> None:
    assert len(page[name]) == LIMIT + 1
    assert sum(page[name].values()) == CLIENTS


def test_what_is_counted_as_other_is_counted(page: Page) -> None:
    """Once for findings and once for connections."""
    assert page["kipwatch_label_overflow_total"] == {(): 2 * (CLIENTS - LIMIT * EACH)}


def test_no_check_is_lost(page: Page) -> None:
    assert page["kipwatch_rule_checks_total"]["WATCHED", RULE, "violates"] == CLIENTS


def test_the_page_stays_small(page: Page) -> None:
    """All of it, with every label of it, in a few hundred series."""
    assert sum(map(len, page.values())) < 5 * LIMIT
    assert not [
        label for series in page.values() for labels in series for label in labels if "client-" in label
    ]
