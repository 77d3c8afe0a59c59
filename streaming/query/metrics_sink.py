"""The metrics sink: adds the reports of each batch to the metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from expectations.rules.base.rule import Verdict
from streaming.judging.report import Report, Requests
from streaming.query.application_metrics import ApplicationMetrics, Software
from streaming.query.quarantine_sink import Fate

TENTHS = 10


class MetricsSink:
    """Counts each batch once, although Spark may repeat the latest one."""

    def __init__(self, metrics: ApplicationMetrics) -> None:
        self._metrics = metrics
        self._latest_batch = -1
        self._summaries: dict[int, Report] = {}

    def add_batch(
        self,
        batch_id: int,
        reports: Iterable[Report],
        quarantined: Mapping[Fate, int] = MappingProxyType({}),
    ) -> None:
        """Add the reports of a batch, and the fates of its records that are no frames.

        A batch that was added before is ignored.
        """
        if batch_id <= self._latest_batch:
            return
        self._latest_batch = batch_id
        self._metrics.count_quarantined(quarantined)
        now, requests = time.time(), list[Requests]()
        for report in reports:
            self._count(report, now)
            requests += report.requests
            # Nothing else of a report is kept: strangers decide how much there is.
            self._summaries[report.bucket] = Report(
                report.bucket, open_connections=report.open_connections, state_bytes=report.state_bytes
            )
        self._metrics.requests.count(requests)
        self._metrics.reassign_labels(time.monotonic())
        self._show_summaries()

    def _count(self, report: Report, now: float) -> None:
        metrics = self._metrics
        for listener, checks in report.checks_at.items():
            for rule, verdicts in checks.items():
                for verdict, count in verdicts.items():
                    metrics.count_checks(rule, Verdict(verdict), count, listener=listener)
        for shown, at in report.brokers:
            metrics.brokers.show(shown, at)
        for offence, count in report.offences:
            software = (offence.software_name, offence.software_version)
            metrics.count_findings(offence.rule, offence.level, offence.role, software, count)
        for api, kinds in report.frames.items():
            for kind, count in kinds.items():
                metrics.count_frames(api, kind, count)
        for reason, count in report.undecodable.items():
            metrics.count_undecodable_frames(reason, count)
        for listener, count in report.ranges_changes.items():
            metrics.count_ranges_changes(listener, count)
        for tenth, count in report.captured.items():
            metrics.detection_delay.observe(max(0.0, now - tenth / TENTHS), count)

    def _show_summaries(self) -> None:
        connections: dict[tuple[Software, str], int] = {}
        for report in self._summaries.values():
            for row in report.open_connections:
                key = ((row.software_name, row.software_version), row.listener)
                connections[key] = connections.get(key, 0) + row.count
        self._metrics.show_connections(connections)
        self._metrics.open_connections.set(sum(connections.values()))
        self._metrics.state_bytes.set(sum(report.state_bytes for report in self._summaries.values()))
