"""The metrics sink counts each batch once and sums gauges over all buckets."""

from __future__ import annotations

import time

import msgspec

from expectations.judging.outcome import Offence
from expectations.rules.catalogue import RULES
from streaming.judging.report import OpenConnections, Report
from streaming.metrics.definitions import FINDINGS
from streaming.metrics.labels import LABEL_LIMIT, OTHER
from streaming.query.application_metrics import SERIES_PER_LABEL, ApplicationMetrics, MetricsSink

RULE = "kip35/version-out-of-range"


class Page:
    """A sink, and the metrics it fills."""

    def __init__(self, label_limit: int = LABEL_LIMIT) -> None:
        self._metrics = ApplicationMetrics([RULE], version="0.1.0", kafka="4.4.0", label_limit=label_limit)
        self.sink = MetricsSink(self._metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self._metrics.registry.get_sample_value(name, labels)

    def findings(self) -> list[tuple[dict[str, str], float]]:
        """The labels and values of all series of findings."""
        families = self._metrics.registry.collect()
        samples = (sample for family in families for sample in family.samples if sample.name == FINDINGS.name)
        return [(sample.labels, sample.value) for sample in samples]


def report(bucket: int = 0, connections: int = 1) -> Report:
    offence = Offence(RULE, "violation", "client", "tester", "1.0", "test", "WATCHED")
    return Report(
        bucket,
        checks_at={"WATCHED": {RULE: {"conforms": 3, "violates": 2}}},
        offences=[(offence, 2)],
        frames={"Metadata": {"request": 5}},
        undecodable={"truncated": 1},
        ranges_changes={"WATCHED": 1},
        captured={int(time.time() * 10) - 20: 5},
        open_connections=[OpenConnections("tester", "1.0", "WATCHED", connections)],
        state_bytes=100,
    )


def counts(page: Page) -> list[float | None]:
    labels = {"client_software_name": "tester", "client_software_version": "1.0"}
    labels |= {"cluster": "test", "listener": "WATCHED", "owner": "unknown"}
    return [
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="conforms", listener="WATCHED"),
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="violates", listener="WATCHED"),
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="undecided", listener=""),
        page.value("kipwatch_findings_total", rule=RULE, level="violation", role="client", **labels),
        page.value("kipwatch_frames_total", api="Metadata", kind="request"),
        page.value("kipwatch_undecodable_frames_total", reason="truncated"),
        page.value("kipwatch_advertised_ranges_changes_total", listener="WATCHED"),
        page.value("kipwatch_detection_delay_seconds_count"),
    ]


def test_undecided_checks_are_counted_by_reason_too() -> None:
    page, undecided = Page(), {RULE: {"cut": 2, "not-asked": 1}}
    page.sink.add_batch(0, [Report(0, checks_at={"A": undecided, "B": undecided})])
    assert page.value("kipwatch_undecided_checks_total", rule=RULE, reason="cut") == 4
    assert page.value("kipwatch_undecided_checks_total", rule=RULE, reason="not-asked") == 2
    assert page.value("kipwatch_rule_checks_total", rule=RULE, verdict="undecided", listener="A") == 3


def test_a_batch_is_counted() -> None:
    page = Page()
    page.sink.add_batch(0, [report()])
    assert counts(page) == [3, 2, 0, 2, 5, 1, 1, 5]
    delay = page.value("kipwatch_detection_delay_seconds_sum")
    assert delay is not None and 5 * 1.5 < delay < 5 * 30


def test_a_repeated_batch_is_counted_once() -> None:
    """Spark repeats a batch whose writing failed."""
    page = Page()
    for batch in (0, 0, 1, 1, 0):
        page.sink.add_batch(batch, [report()])
    assert counts(page) == [6, 4, 0, 4, 10, 2, 2, 10]


def test_gauges_are_sums_of_the_latest_report_of_each_bucket() -> None:
    page = Page()
    labels = {"client_software_name": "tester", "client_software_version": "1.0", "listener": "WATCHED"}
    page.sink.add_batch(0, [report(0, 3), report(1, 4)])
    assert page.value("kipwatch_connections", **labels) == 7
    assert page.value("kipwatch_open_connections") == 7
    assert page.value("kipwatch_state_bytes") == 200
    page.sink.add_batch(1, [report(1, 1)])
    assert page.value("kipwatch_connections", **labels) == 4
    page.sink.add_batch(2, [Report(0), Report(1)])
    assert page.value("kipwatch_connections", **labels) is None
    assert page.value("kipwatch_open_connections") == 0


def test_a_connection_without_a_name_is_not_one_that_calls_itself_unknown() -> None:
    """Dashboards count the first as nameless. The second is a client's invention."""
    page, names = Page(), [(None, 3), ("unknown", 2), ("tester", 1)]
    rows = [OpenConnections(name, name, "WATCHED", count) for name, count in names]
    page.sink.add_batch(0, [Report(0, open_connections=rows)])
    shown = [
        page.value(
            "kipwatch_connections",
            client_software_name=name,
            client_software_version=name,
            listener="WATCHED",
        )
        for name in ("unknown", "invalid", "tester")
    ]
    assert shown == [3, 2, 1]


def test_offences_of_two_clusters_are_counted_apart() -> None:
    page = Page()
    here = Offence(RULE, "violation", "client", "tester", "1.0", "here", "WATCHED")
    there = msgspec.structs.replace(here, cluster="there")
    page.sink.add_batch(0, [Report(0, offences=[(here, 2), (there, 5)]), Report(1, offences=[(there, 1)])])
    assert {labels["cluster"]: count for labels, count in page.findings()} == {"here": 2, "there": 6}


def test_series_of_findings_are_bounded_although_each_label_is() -> None:
    """A client may invent names at each listener. Beyond the bound, series still have the cluster."""
    page = Page(label_limit=10)
    offences = [
        (Offence(rule.id, "violation", "client", f"name-{name}", "1", "here", f"L{listener}"), 1)
        for rule in RULES
        for listener in range(10)
        for name in range(10)
    ]
    page.sink.add_batch(0, [Report(0, offences=offences)])
    series = page.findings()
    assert sum(count for _, count in series) == len(offences) > SERIES_PER_LABEL * 10
    told = [labels for labels, _ in series if labels["listener"] != OTHER]
    assert len(told) == SERIES_PER_LABEL * 10
    assert len(series) <= len(told) + 10 * len(RULES)
    assert {labels["cluster"] for labels, _ in series} == {"here"}


def test_owners_are_told_apart_up_to_a_bound_and_nobodys_are_unknown() -> None:
    page = Page(label_limit=3)
    names = ["payments", None, "search", "edge", "late"]
    offences = [
        (Offence(RULE, "violation", "client", "tester", "1.0", "here", "WATCHED", name), 1) for name in names
    ]
    page.sink.add_batch(0, [Report(0, offences=offences)])
    counted = {labels["owner"]: count for labels, count in page.findings()}
    assert counted == {"payments": 1, "unknown": 1, "search": 1, OTHER: 2}
