"""The metrics that the application exposes, and the sink that adds the reports of each batch to them.

Labels from the wire are bounded (`streaming/metrics/labels.py`). Findings, connections and requests share
the labels of client software. When software loses its series, its counts move to `(former)`, so that sums
stay exact.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from decoders.schema.registry import Schemas, default_schemas
from expectations.judging.outcome import Offence
from expectations.report.client import Software
from expectations.rules.base.rule import Verdict
from expectations.rules.catalogue import REFUSED_PACKS
from streaming.audit.live_validation import Demands, Successes, ValidationOutcome
from streaming.judging.report import Report, Requests
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.labels import (
    FORMER,
    LABEL_LIMIT,
    OTHER,
    BoundedLabels,
    SoftwareLabels,
    SoftwareSlots,
)
from streaming.query.exit_reason import EXIT_REASONS, UNKNOWN, ExitReason
from streaming.query.recent import Recent
from streaming.query.topic_sinks import QuarantineFate
from streaming.query.version_metrics import BrokerMetrics, RequestMetrics

NOWHERE = ""
"""The listener of the series that each rule has from the start."""
SERIES_PER_LABEL = 200
"""Series of findings by listener and owner, as a multiple of the label limit: a client may use its invented
names at each listener.
"""


class ApplicationMetrics:
    """The metrics of the application.

    The thread that runs the batches changes counters, except for those of validations, which have a thread of
    their own.
    """

    def __init__(
        self,
        rules: Iterable[str],
        *,
        version: str,
        kafka: str,
        schemas: Schemas | None = None,
        label_limit: int = LABEL_LIMIT,
    ) -> None:
        """`rules` are the IDs of all rules, `kafka` the release whose schemas are loaded.

        Without `schemas` the committed ones name APIs and the fate of their versions.
        """
        self.registry = instruments.page(version, kafka)
        self.detection_delay = instruments.bulk_histogram(metrics.DETECTION_DELAY, self.registry)
        self.batch_duration = instruments.histogram(metrics.BATCH_DURATION, self.registry)
        self.last_batch_timestamp = instruments.gauge(metrics.LAST_BATCH_TIMESTAMP, self.registry)
        self.topic_lag = instruments.gauge(metrics.TOPIC_LAG, self.registry)
        self.topic_lag.set(math.nan)
        self.state_bytes = instruments.gauge(metrics.STATE_BYTES, self.registry)
        self.open_connections = instruments.gauge(metrics.OPEN_CONNECTIONS, self.registry)
        self._checks = instruments.counter(metrics.RULE_CHECKS, self.registry)
        self._undecided = instruments.counter(metrics.UNDECIDED_CHECKS, self.registry)
        self._findings = instruments.counter(metrics.FINDINGS, self.registry)
        self._connections = instruments.gauge(metrics.CONNECTIONS, self.registry)
        self._frames = instruments.counter(metrics.FRAMES, self.registry)
        self._undecodable_frames = instruments.counter(metrics.UNDECODABLE_FRAMES, self.registry)
        self._ranges_changes = instruments.counter(metrics.RANGES_CHANGES, self.registry)
        self._exits = instruments.counter(metrics.QUERY_ENDINGS, self.registry)
        self.findings_refused = instruments.counter(metrics.FINDINGS_REFUSED, self.registry)
        instruments.gauge(metrics.PACKS_REFUSED, self.registry).set(len(REFUSED_PACKS))
        self._quarantined = instruments.counter(metrics.QUARANTINED, self.registry)
        self._policies = instruments.gauge(metrics.POLICY_INFO, self.registry)
        self._expectations = instruments.gauge(metrics.EXPECTATION_SUCCESS, self.registry)
        self._validations = instruments.counter(metrics.VALIDATIONS, self.registry)
        self._validation_seconds = instruments.counter(metrics.VALIDATION_SECONDS, self.registry)
        overflow = instruments.counter(metrics.LABEL_OVERFLOW, self.registry)
        self._software = SoftwareSlots(label_limit, overflow.inc)
        self._overflowed = overflow.inc
        self._clusters, self._listeners, self._owners, self._apis, self._reasons = (
            BoundedLabels(label_limit, overflow.inc) for _ in range(5)
        )
        schemas = schemas or default_schemas()
        self.requests = RequestMetrics(self.registry, schemas, self._software, label_limit, overflow.inc)
        self.brokers = BrokerMetrics(self.registry, schemas.api_names, label_limit, overflow.inc)
        self._windows = instruments.counter(metrics.WINDOWS, self.registry)
        self.automaton_clears = instruments.counter(metrics.AUTOMATON_CLEARS, self.registry)
        self.recent = Recent()
        self._found: defaultdict[SoftwareLabels, Counter[tuple[tuple[str, ...], tuple[str, ...]]]] = (
            defaultdict(Counter)
        )
        """The findings of each software, by (rule, level, role) and (place, owner)."""
        self._series, self._series_limit = 0, SERIES_PER_LABEL * label_limit
        self._shown: set[tuple[str, ...]] = set()
        self.add_rules(rules)
        for reason in (*EXIT_REASONS, UNKNOWN):
            self._exits.labels(reason.name)
        self.count_windows(0, 0)
        for fate in QuarantineFate:
            self._quarantined.labels(fate)
        for outcome in ValidationOutcome:
            self._validations.labels(outcome)

    def count_windows(self, walked: int, judged: int) -> None:
        """Count windows that the automaton walked, and those that the rules judged."""
        self._windows.labels("automaton").inc(walked)
        self._windows.labels("rules").inc(judged)

    def add_rules(self, rules: Iterable[str]) -> None:
        """Show the checks of rules, 0 before the first one."""
        for rule in rules:
            for verdict in Verdict:
                self._checks.labels(rule, verdict, NOWHERE)

    def count_checks(self, rule: str, ruling: str, amount: int = 1, *, listener: str = NOWHERE) -> None:
        verdict = Verdict.of(ruling)
        shown = self._listeners.admit(listener, amount) if listener else NOWHERE
        self._checks.labels(rule, verdict, shown).inc(amount)
        if verdict is Verdict.UNDECIDED:
            self._undecided.labels(rule, ruling).inc(amount)

    def count_findings(self, offence: Offence, amount: int = 1) -> None:
        """Count offences, by labels that are bounded."""
        labels = self._software.admit(offence.software_name, offence.software_version, amount=amount)
        cluster = self._clusters.admit(offence.cluster, amount)
        listener = self._listeners.admit(offence.listener, amount)
        place = cluster, listener, self._owners.admit(offence.owner, amount)
        what = offence.rule, offence.level, offence.role
        self.recent.add(Offence(*what, *labels, offence.cluster, offence.listener, offence.owner), amount)
        counted = self._found[labels]
        if (what, place) not in counted and self._series >= self._series_limit:
            place = cluster, OTHER, OTHER
            self._overflowed(amount)
        self._series += (what, place) not in counted
        counted[what, place] += amount
        self._findings.labels(*what, *labels, *place).inc(amount)

    def count_frames(self, api: str, kind: str, amount: int = 1) -> None:
        self._frames.labels(self._apis.admit(api, amount), kind).inc(amount)

    def count_undecodable_frames(self, reason: str, amount: int = 1) -> None:
        self._undecodable_frames.labels(self._reasons.admit(reason, amount)).inc(amount)

    def count_ranges_changes(self, listener: str, amount: int = 1) -> None:
        self._ranges_changes.labels(self._listeners.admit(listener, amount)).inc(amount)

    def count_quarantined(self, fates: Mapping[QuarantineFate, int]) -> None:
        for fate, amount in fates.items():
            self._quarantined.labels(fate).inc(amount)

    def show_expectations(self, successes: Successes, policies: Demands) -> None:
        """Show whether each expectation is met, and what those of policies demand."""
        for labels, success in successes.items():
            self._expectations.labels(*labels).set(success)
        for labels, says in policies.items():
            self._policies.labels(*labels, says).set(1)

    def count_validation(self, outcome: ValidationOutcome, seconds: float = 0.0) -> None:
        """Count a validation, and the seconds of a processor that it took."""
        self._validations.labels(outcome).inc()
        self._validation_seconds.inc(seconds)

    def count_exit(self, reason: ExitReason) -> None:
        """Count an unexpected exit of the query."""
        self._exits.labels(reason.name).inc()

    def reassign_labels(self, now: float) -> None:
        """Move series from software that is seen less to software that is seen more.

        Findings and requests of software that loses its series are counted as `(former)`. `now` is in seconds
        of a steady clock. Call it between two batches.
        """
        for name, version in self._software.reassign(now):
            lost = [labels for labels in self._found if labels[0] == name and version in (None, labels[1])]
            for labels in lost:
                self._retire(labels)
            if version is None:
                self.requests.retire(name)

    def _retire(self, labels: SoftwareLabels) -> None:
        found = self._found.pop(labels)
        for (what, place), amount in found.items():
            self._findings.labels(*what, FORMER, FORMER, *place).inc(amount)
            self._findings.remove(*what, *labels, *place)
        self._series -= len(found)

    def show_connections(self, connections: Mapping[tuple[Software, str], int]) -> None:
        """Set the gauges of open connections, by software and listener.

        Series whose labels the mapping lacks are removed.
        """
        shown: defaultdict[tuple[str, ...], int] = defaultdict(int)
        by_software: Counter[Software] = Counter()
        for (software, _), count in connections.items():
            by_software[software] += count
        # Free slots go to the software that is seen most.
        admitted = {
            software: self._software.admit(*software, amount=count, at_once=count)
            for software, count in by_software.most_common()
        }
        for (software, listener), count in connections.items():
            shown[*admitted[software], self._listeners.admit(listener, count)] += count
        for labels, count in shown.items():
            self._connections.labels(*labels).set(count)
        for labels in self._shown - shown.keys():
            self._connections.remove(*labels)
        self._shown = set(shown)


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
        quarantined: Mapping[QuarantineFate, int] = MappingProxyType({}),
    ) -> None:
        """Add the reports of a batch, and the fates of its records that are no blocks.

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
            # Keep only this part of a report, which has a bounded size: clients decide on the rest.
            self._summaries[report.bucket] = Report(
                report.bucket, open_connections=report.open_connections, state_bytes=report.state_bytes
            )
        self._metrics.requests.count(requests)
        self._metrics.reassign_labels(time.monotonic())
        self._show_summaries()

    def _count(self, report: Report, now: float) -> None:
        metrics = self._metrics
        if report.captured:
            metrics.recent.add_frames(now, max(report.captured) / TENTHS)
        for listener, checks in report.checks_at.items():
            for rule, rulings in checks.items():
                for ruling, count in rulings.items():
                    metrics.count_checks(rule, ruling, count, listener=listener)
        for shown, at in report.brokers:
            metrics.brokers.show(shown, at)
        for offence, count in report.offences:
            metrics.count_findings(offence, count)
        for api, kinds in report.frames.items():
            for kind, count in kinds.items():
                metrics.count_frames(api, kind, count)
        for reason, count in report.undecodable.items():
            metrics.count_undecodable_frames(reason, count)
        for listener, count in report.ranges_changes.items():
            metrics.count_ranges_changes(listener, count)
        metrics.count_windows(report.walked, report.judged)
        metrics.automaton_clears.inc(report.clears)
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
