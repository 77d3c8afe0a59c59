"""Growth as alerts and panels ask for it: the first value of a new series counts, of an old one it does not.

An exporter's page is scraped by a real Prometheus that starts late and loses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from dashboards.promql import findings, grown, total
from expectations.judging.outcome import Offence
from expectations.rules.catalogue import RULES
from streaming.broker.ports import free_ports
from streaming.metrics.exposition import Exposition, serve
from streaming.observe import Server, start_prometheus
from streaming.query.application_metrics import ApplicationMetrics
from tests.dashboards.dashboard_files import PANELS, queries
from tests.dashboards.prometheus import evaluate, series_of
from tests.waiting import until

RULE = RULES[0].id
WINDOW = "5s"
SECONDS = 5
Found = dict[str, float]


def served(registry: CollectorRegistry, port: int = 0) -> Exposition:
    return serve(registry, port, lambda: True, lambda: True)


def offend(metrics: ApplicationMetrics, software: str, amount: int) -> None:
    metrics.count_findings(Offence(RULE, "violation", "client", software, "1"), amount)


def grown_by(server: Server, query: str) -> Found:
    return {
        each["metric"]["client_software_name"]: float(each["value"][1])
        for each in series_of(server.url, query)
        if float(each["value"][1])
    }


@pytest.fixture
def page() -> Iterator[tuple[ApplicationMetrics, Exposition]]:
    """The page of a query that found much, longer ago than the window."""
    metrics = ApplicationMetrics([RULE], version="test", kafka="4.3.1")
    offend(metrics, "old", 500)
    exposition = served(metrics.registry)
    time.sleep(SECONDS + 1)
    yield metrics, exposition
    exposition.close()


@pytest.mark.slow
def test_a_prometheus_that_starts_late_or_loses_the_query_counts_nothing_that_began_before(
    page: tuple[ApplicationMetrics, Exposition], tmp_path: Path
) -> None:
    """It counts the first offences of a new series, and what an old one grows by."""
    metrics, exposition = page
    target = {"job_name": "kipwatch", "static_configs": [{"targets": [f"127.0.0.1:{exposition.port}"]}]}
    settings = tmp_path / "prometheus.json"
    settings.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [target]}))
    window = total(grown(findings(), WINDOW), "client_software_name")
    with start_prometheus("prometheus", settings, free_ports(1)[0], tmp_path) as server:
        server.wait()
        until(lambda: bool(series_of(server.url, findings())))
        for _ in range(2 * SECONDS):
            assert grown_by(server, window) == {}
            time.sleep(0.5)
        offend(metrics, "new", 3)
        offend(metrics, "old", 1)
        until(lambda: grown_by(server, window).keys() == {"new", "old"})
        assert grown_by(server, window)["new"] == 3
        until(lambda: not grown_by(server, window))
        exposition.close()
        until(lambda: not series_of(server.url, findings()))
        for _ in range(2 * SECONDS):
            assert grown_by(server, window) == {}
            time.sleep(0.5)


def test_growth_counts_a_series_that_was_born_in_the_range_and_survives_a_restart(tmp_path: Path) -> None:
    """The panels' growth query, asked by promtool: `increase` alone would lose the first offence."""
    _, query, _, _ = queries(next(panel for _, panel in PANELS if panel["title"] == "Offences"))
    labels = 'level="violation", client_software_name="lib", client_software_version="1"'
    rules = "born", "restarted", "late", "both"
    born, restarted, late, both = (f'{{rule="{rule}", {labels}}}' for rule in rules)

    def series(kind: str, shown: str, values: str) -> dict[str, str]:
        labels = shown.replace("{", '{job="kipwatch", ')
        return {"series": f"kipwatch_findings_{kind}{labels}", "values": values}

    case = {
        "interval": "1m",
        "input_series": [
            series("total", born, "_x100 1x30"),
            series("created", born, "_x100 5990x30"),
            series("total", restarted, "5x100 0 3x30"),
            series("created", restarted, "0x100 6060 6060x30"),
            series("total", late, "_x100 900x30"),
            series("created", late, "_x100 0x30"),
            series("total", both, "_x80 3x9 8x9 2x9 6x10"),
            series("created", both, "_x80 4790x19 5990x20"),
        ],
        "promql_expr_test": [
            {
                "expr": query,
                "eval_time": "120m",
                "exp_samples": [
                    {"labels": born, "value": 1},
                    {"labels": restarted, "value": 3},
                    # Its first value is lost.
                    {"labels": both, "value": 5 + 2 + 4},
                ],
            }
        ],
    }
    evaluate(tmp_path, case)
