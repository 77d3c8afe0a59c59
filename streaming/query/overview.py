"""The page at /, for people: what the metrics say, the offences of the last minutes, the latest findings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from expectations.report.coverage import coverage_of
from expectations.report.live_page import Condition, LiveClient, LiveView, clock, live_page
from expectations.rules.base.rule import Level, Verdict, gravity
from expectations.rules.catalogue import RULES
from streaming.metrics import definitions as metrics
from streaming.metrics.exposition import MetricsPage
from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.progress import STALLED_AFTER
from streaming.query.recent import WINDOW_MINUTES, LatestFindings, Recent

BEHIND_AFTER: Final = 60.0
"""Seconds from the capture of a frame to its judgement, above which kipwatch counts as behind."""
SILENT_AFTER: Final = 60.0 * WINDOW_MINUTES
"""Seconds without a frame, after which an empty list of offences says nothing."""
_FEEDER: Final = "is a feeder running, and does it see traffic?"
_MOST: Final = 0.99


class Overview:
    """Makes the page. `findings` notes findings as they are written.

    `kafka_trouble` returns why the query waits for Kafka, "" if it does not.
    """

    def __init__(
        self, application: ApplicationMetrics, kafka_trouble: Callable[[], str] = lambda: ""
    ) -> None:
        self._application, self._kafka_trouble = application, kafka_trouble
        self.findings = LatestFindings()

    def page(self, refreshes: bool) -> str:
        """Return the page as of now; without `refreshes` the browser does not reload it."""
        return live_page(self._view(time.time()), refreshes=refreshes)

    def _view(self, now: float) -> LiveView:
        page, recent = MetricsPage(self._application.registry.collect()), self._application.recent
        checks = _checks(page)
        judged = {rule for rule, _ in checks}
        return LiveView(
            now,
            _condition(page, recent, now, self._kafka_trouble()),
            _figures(page, recent, now),
            recent.offenders(now),
            f"{WINDOW_MINUTES} minutes",
            _clients(page),
            coverage_of(checks, [rule for rule in RULES if rule.id in judged]),
            _levels(page),
            self.findings.all(),
        )


def _condition(page: MetricsPage, recent: Recent, now: float, kafka_trouble: str) -> Condition:
    last_batch = page.total(metrics.LAST_BATCH_TIMESTAMP.name)
    if kafka_trouble:
        return Condition("violation", f"Kafka serves no frames, so nothing is judged: {kafka_trouble}.")
    if not last_batch:
        return Condition("undecided", "kipwatch starts: nothing is judged yet.")
    if now - last_batch > STALLED_AFTER:
        since = f"Nothing has been judged since {clock(last_batch)}"
        return Condition("violation", f"{since}: an empty list below means nothing.")
    return _sight(recent, now, has_lag=page.total(metrics.TOPIC_LAG.name) > 0)


def _sight(recent: Recent, now: float, *, has_lag: bool) -> Condition:
    """Say whether frames reach a query that runs, and how late it judges them."""
    if not recent.judged_at:
        waits = "The first frames wait to be judged."
        return Condition("undecided", waits if has_lag else f"No frame has come yet: {_FEEDER}")
    at = clock(recent.captured_at)
    is_busy = has_lag or now - recent.judged_at < BEHIND_AFTER
    if is_busy and recent.judged_at - recent.captured_at > BEHIND_AFTER:
        return Condition("improvement", f"kipwatch is behind: it judges frames that were captured at {at}.")
    if now - recent.captured_at > SILENT_AFTER:
        return Condition("undecided", f"No frame has been captured since {at}: {_FEEDER}")
    return Condition("conforms", "kipwatch judges what it sees.")


def _figures(page: MetricsPage, recent: Recent, now: float) -> list[tuple[str, str]]:
    last_batch = page.total(metrics.LAST_BATCH_TIMESTAMP.name)
    frames = page.total(metrics.FRAMES.name)
    lag = page.total(metrics.TOPIC_LAG.name)
    undecodable = page.total(metrics.UNDECODABLE_FRAMES.name)
    figures = [
        ("frames judged", f"{frames:,.0f}"),
        ("of them not decoded", f"{undecodable:,.0f}"),
        ("frames waiting", "unknown" if math.isnan(lag) else f"about {lag:,.0f}"),
        ("open connections", f"{page.total(metrics.OPEN_CONNECTIONS.name):,.0f}"),
    ]
    if last_batch:
        figures.append(("last batch", f"{max(0.0, now - last_batch):.0f} s ago"))
    if recent.judged_at:
        delay = max(0.0, recent.judged_at - recent.captured_at)
        figures.append(("delay of the latest frame", f"{delay:.1f} s"))
    if within := _delay_of_most(page):
        figures.append((f"delay of {_MOST:.0%} of all frames", within))
    return figures


def _delay_of_most(page: MetricsPage) -> str:
    """Return the bucket of the histogram up to which most frames are, "" before the first frame."""
    buckets = page.by(f"{metrics.DETECTION_DELAY.name}_bucket", "le")
    total = max(buckets.values(), default=0.0)
    bounds = sorted((float(bound), count) for (bound,), count in buckets.items())
    found = next((bound for bound, count in bounds if total and count >= _MOST * total), None)
    if found is None:
        return ""
    return f"over {bounds[-2][0]:g} s" if found == float("inf") else f"within {found:g} s"


def _checks(page: MetricsPage) -> dict[tuple[str, str], int]:
    """Return the checks of each rule: by verdict, and the undecided ones by reason."""
    verdicts = page.by(metrics.RULE_CHECKS.name, "rule", "verdict")
    reasons = page.by(metrics.UNDECIDED_CHECKS.name, "rule", "reason")
    decided = {key: count for key, count in verdicts.items() if key[1] != Verdict.UNDECIDED}
    return {(rule, ruling): int(count) for (rule, ruling), count in {**decided, **reasons}.items()}


def _levels(page: MetricsPage) -> dict[str, str]:
    """Return the gravest level of each rule's offences."""
    gravest: dict[str, str] = {}
    for (rule, level), count in page.by(metrics.FINDINGS.name, "rule", "level").items():
        if count and level in tuple(Level):
            gravest[rule] = min(gravest.get(rule, level), level, key=gravity)
    return gravest


def _clients(page: MetricsPage) -> list[LiveClient]:
    connections = page.by(metrics.CONNECTIONS.name, *metrics.SOFTWARE)
    offences: dict[tuple[str, ...], dict[str, int]] = {}
    for (*software, level), count in page.by(metrics.FINDINGS.name, *metrics.SOFTWARE, "level").items():
        offences.setdefault(tuple(software), {})[level] = int(count)
    return [
        LiveClient(software, int(connections.get(software, 0)), offences.get(software, {}))
        for software in ((name, version) for name, version in {**connections, **offences})
    ]
