"""The metrics sink counts each batch once and sums gauges over all buckets."""

from __future__ import annotations

import time

from expectations.judging.outcome import Offence
from streaming.judging.report import OpenConnections, Report
from streaming.query.application_metrics import ApplicationMetrics, MetricsSink

RULE = "kip35/version-out-of-range"


class Page:
    """A sink, and the metrics it fills."""

    def __init__(self) -> None:
        self._metrics = ApplicationMetrics([RULE], version="0.1.0", kafka="4.4.0")
        self.sink = MetricsSink(self._metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self._metrics.registry.get_sample_value(name, labels)


def report(bucket: int = 0, connections: int = 1) -> Report:
    offence = Offence(RULE, "violation", "client", "tester", "1.0")
    return Report(
        bucket,
        checks_at={"WATCHED": {RULE: {"conforms": 3, "violates": 2}}},
        offences=[(offence, "WATCHED", 2)],
        frames={"Metadata": {"request": 5}},
        undecodable={"truncated": 1},
        ranges_changes={"WATCHED": 1},
        captured={int(time.time() * 10) - 20: 5},
        open_connections=[OpenConnections("tester", "1.0", "WATCHED", connections)],
        state_bytes=100,
    )


def counts(page: Page) -> list[float | None]:
    software = {"client_software_name": "tester", "client_software_version": "1.0"}
    return [
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="conforms", listener="WATCHED"),
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="violates", listener="WATCHED"),
        page.value("kipwatch_rule_checks_total", rule=RULE, verdict="undecided", listener=""),
        page.value("kipwatch_findings_total", rule=RULE, level="violation", role="client", **software),
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
