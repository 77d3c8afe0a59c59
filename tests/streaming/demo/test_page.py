"""A metrics page is scraped and parsed."""

from __future__ import annotations

from prometheus_client import generate_latest

from expectations.rules.base.rule import Verdict
from streaming.demo.page import MetricsPage, scrape
from streaming.metrics.exposition import serve
from streaming.query.application_metrics import ApplicationMetrics

CHECKS = "kipwatch_rule_checks_total"


def metrics() -> ApplicationMetrics:
    made = ApplicationMetrics(["a/one", "a/two"], version="0.1.0", kafka="4.4.0")
    made.count_checks("a/one", Verdict.VIOLATES, 2)
    made.count_checks("a/one", Verdict.CONFORMS, 5)
    made.count_checks("a/two", Verdict.CONFORMS, 1)
    return made


def test_samples_are_summed_by_labels() -> None:
    page = MetricsPage(generate_latest(metrics().registry).decode())
    assert page.total(CHECKS) == 8
    assert page.total(CHECKS, verdict="conforms") == 6
    assert page.total(CHECKS, rule="a/one", verdict="conforms") == 5
    assert page.total("kipwatch_nothing") == 0
    assert page.by(CHECKS, "rule") == {("a/one",): 7, ("a/two",): 1}
    assert page.by(CHECKS, "rule", "verdict")["a/one", "violates"] == 2


def test_a_page_is_scraped_and_an_absent_one_is_none() -> None:
    exposition = serve(metrics().registry, 0, lambda: True, lambda: True)
    address = f"127.0.0.1:{exposition.port}"
    page = scrape(address)
    exposition.close()
    assert page is not None and page.total(CHECKS) == 8
    assert scrape(address) is None
