"""The metrics that the application exposes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from decoders.schema.registry import Schemas, default_schemas
from expectations.rules.base.rule import Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.label_values import LABEL_LIMIT, BoundedLabels
from streaming.metrics.software_labels import FORMER, SoftwareLabels, SoftwareSlots
from streaming.query.broker_metrics import BrokerMetrics
from streaming.query.exit_reason import EXIT_REASONS, UNKNOWN, ExitReason
from streaming.query.quarantine_sink import Fate
from streaming.query.request_metrics import RequestMetrics
from streaming.validation.live_validation import Outcome
from streaming.validation.reply import Successes

NOWHERE = ""
"""The listener of a series that every rule has from the start."""
Software: TypeAlias = tuple[str | None, str | None]
"""The name and version of a client's software, None where the client sent none."""


class ApplicationMetrics:
    """The metrics of the application.

    Counters are changed only by the thread that runs the batches, those of validations by that of these.
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
        self.state_bytes = instruments.gauge(metrics.STATE_BYTES, self.registry)
        self.open_connections = instruments.gauge(metrics.OPEN_CONNECTIONS, self.registry)
        self._checks = instruments.counter(metrics.RULE_CHECKS, self.registry)
        self._findings = instruments.counter(metrics.FINDINGS, self.registry)
        self._connections = instruments.gauge(metrics.CONNECTIONS, self.registry)
        self._frames = instruments.counter(metrics.FRAMES, self.registry)
        self._undecodable_frames = instruments.counter(metrics.UNDECODABLE_FRAMES, self.registry)
        self._ranges_changes = instruments.counter(metrics.RANGES_CHANGES, self.registry)
        self._exits = instruments.counter(metrics.QUERY_ENDINGS, self.registry)
        self.findings_refused = instruments.counter(metrics.FINDINGS_REFUSED, self.registry)
        self._quarantined = instruments.counter(metrics.QUARANTINED, self.registry)
        self._expectations = instruments.gauge(metrics.EXPECTATION_SUCCESS, self.registry)
        self._validations = instruments.counter(metrics.VALIDATIONS, self.registry)
        self._validation_seconds = instruments.counter(metrics.VALIDATION_SECONDS, self.registry)
        overflow = instruments.counter(metrics.LABEL_OVERFLOW, self.registry)
        self._software = SoftwareSlots(label_limit, overflow.inc)
        self._listeners, self._apis, self._reasons = (
            BoundedLabels(label_limit, overflow.inc) for _ in range(3)
        )
        schemas = schemas or default_schemas()
        self.requests = RequestMetrics(self.registry, schemas, self._software, label_limit, overflow.inc)
        self.brokers = BrokerMetrics(self.registry, schemas.api_names, label_limit, overflow.inc)
        self._found: defaultdict[SoftwareLabels, Counter[tuple[str, str, str]]] = defaultdict(Counter)
        """The findings of each software, by rule, level and role."""
        self._shown: set[tuple[str, ...]] = set()
        self.add_rules(rules)
        for reason in (*EXIT_REASONS, UNKNOWN):
            self._exits.labels(reason.name)
        for fate in Fate:
            self._quarantined.labels(fate)
        for outcome in Outcome:
            self._validations.labels(outcome)

    def add_rules(self, rules: Iterable[str]) -> None:
        """Show the checks of rules, 0 before the first one."""
        for rule in rules:
            for verdict in Verdict:
                self._checks.labels(rule, verdict, NOWHERE)

    def count_checks(self, rule: str, verdict: Verdict, amount: int = 1, *, listener: str = NOWHERE) -> None:
        labels = self._listeners.admit(listener, amount=amount) if listener else (NOWHERE,)
        self._checks.labels(rule, verdict, *labels).inc(amount)

    def count_findings(self, rule: str, level: str, role: str, software: Software, amount: int = 1) -> None:
        labels = self._software.admit(*software, amount=amount)
        self._found[labels][rule, level, role] += amount
        self._findings.labels(rule, level, role, *labels).inc(amount)

    def count_frames(self, api: str, kind: str, amount: int = 1) -> None:
        self._frames.labels(*self._apis.admit(api, amount=amount), kind).inc(amount)

    def count_undecodable_frames(self, reason: str, amount: int = 1) -> None:
        self._undecodable_frames.labels(*self._reasons.admit(reason, amount=amount)).inc(amount)

    def count_ranges_changes(self, listener: str, amount: int = 1) -> None:
        self._ranges_changes.labels(*self._listeners.admit(listener, amount=amount)).inc(amount)

    def count_quarantined(self, fates: Mapping[Fate, int]) -> None:
        for fate, amount in fates.items():
            self._quarantined.labels(fate).inc(amount)

    def show_expectations(self, successes: Successes) -> None:
        """Show whether each expectation is met, by suite and expectation."""
        for labels, success in successes.items():
            self._expectations.labels(*labels).set(success)

    def count_validation(self, outcome: Outcome, seconds: float = 0.0) -> None:
        """Count a validation, and the seconds of a processor that it took."""
        self._validations.labels(outcome).inc()
        self._validation_seconds.inc(seconds)

    def count_exit(self, reason: ExitReason) -> None:
        """Count an exit of the query that nobody asked for."""
        self._exits.labels(reason.name).inc()

    def reassign_labels(self, now: float) -> None:
        """Give label values to software that is seen more than others that have some.

        Findings and requests of software that loses its series are counted as `(former)`, so that sums stay
        exact. `now` is in seconds of a steady clock. Call it between two batches.
        """
        for name, version in self._software.reassign(now):
            lost = [labels for labels in self._found if labels[0] == name and version in (None, labels[1])]
            for labels in lost:
                self._retire(labels)
            if version is None:
                self.requests.retire(name)

    def _retire(self, labels: SoftwareLabels) -> None:
        for found, amount in self._found.pop(labels).items():
            self._findings.labels(*found, FORMER, FORMER).inc(amount)
            self._findings.remove(*found, *labels)

    def show_connections(self, connections: Mapping[tuple[Software, str], int]) -> None:
        """Set the gauges of open connections, by software and listener.

        Label values that the mapping no longer contains are removed.
        """
        shown: defaultdict[tuple[str, ...], int] = defaultdict(int)
        by_software: Counter[Software] = Counter()
        for (software, _), count in connections.items():
            by_software[software] += count
        # The most seen first: they get the slots that are free.
        admitted = {
            software: self._software.admit(*software, amount=count, at_once=count)
            for software, count in by_software.most_common()
        }
        for (software, listener), count in connections.items():
            shown[admitted[software] + self._listeners.admit(listener, amount=count)] += count
        for labels, count in shown.items():
            self._connections.labels(*labels).set(count)
        for labels in self._shown - shown.keys():
            self._connections.remove(*labels)
        self._shown = set(shown)
