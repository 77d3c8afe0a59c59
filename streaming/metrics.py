"""Every metric: its name, kind, labels and meaning. The one definition.

Dashboards, alerts, documentation and tests read `METRICS`; the application and the feeder fill
them through `ApplicationMetrics` and `FeederMetrics`. Neither a connection nor a client, instance
or member ID is ever a label.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from expectations.rule import Verdict
from streaming.label_values import BoundedLabels

LABEL_LIMIT = 100
"""Distinct values that a label from the wire may have before the rest become `other`."""


class Kind(enum.StrEnum):
    """The type of a metric, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `unit` is a base unit of Prometheus; `buckets` are upper bounds in that unit."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


Software: TypeAlias = tuple[str | None, str | None]
"""The name and version of a client's software, None where the client did not say."""
SOFTWARE = ("client_software_name", "client_software_version")

RULE_CHECKS = Metric(
    "kipwatch_rule_checks_total",
    Kind.COUNTER,
    "Checks made, by rule and verdict. Every rule and verdict is present from the start, at 0.",
    ("rule", "verdict"),
)
FINDINGS = Metric(
    "kipwatch_findings_total",
    Kind.COUNTER,
    "Offences found, by rule and client software. A series appears with its first offence.",
    ("rule", "level", "role", *SOFTWARE),
)
CONNECTIONS = Metric(
    "kipwatch_connections",
    Kind.GAUGE,
    "Open client connections, by client software and listener (KIP-511).",
    (*SOFTWARE, "listener"),
)
FRAMES = Metric(
    "kipwatch_frames_total",
    Kind.COUNTER,
    "Protocol frames read, by API and kind (request, response).",
    ("api", "kind"),
)
UNDECODABLE_FRAMES = Metric(
    "kipwatch_undecodable_frames_total",
    Kind.COUNTER,
    "Complete frames that no known schema could read, by reason.",
    ("reason",),
)
DETECTION_DELAY = Metric(
    "kipwatch_detection_delay_seconds",
    Kind.HISTOGRAM,
    "Time from the capture of a frame to its judgement.",
    unit="seconds",
    buckets=(0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300),
)
BATCH_DURATION = Metric(
    "kipwatch_batch_duration_seconds",
    Kind.HISTOGRAM,
    "Time that a batch of the query took.",
    unit="seconds",
    buckets=(0.25, 0.5, 1, 2, 3, 5, 10, 30, 60),
)
LAST_BATCH_TIMESTAMP = Metric(
    "kipwatch_last_batch_timestamp_seconds",
    Kind.GAUGE,
    "When the latest batch was finished, in seconds since the epoch; 0 before the first.",
    unit="seconds",
)
TOPIC_LAG = Metric(
    "kipwatch_topic_lag_records",
    Kind.GAUGE,
    "Records of the frames topic that wait to be judged.",
)
STATE_BYTES = Metric(
    "kipwatch_state_bytes",
    Kind.GAUGE,
    "Memory that the state of all connections takes.",
    unit="bytes",
)
OPEN_CONNECTIONS = Metric(
    "kipwatch_open_connections",
    Kind.GAUGE,
    "Connections that the query keeps state of.",
)
LABEL_OVERFLOW = Metric(
    "kipwatch_label_overflow_total",
    Kind.COUNTER,
    "Observations counted as `other` because a label had its full number of values.",
)
CAPTURE_BYTES = Metric(
    "kipwatch_capture_bytes_total",
    Kind.COUNTER,
    "TCP payload by fate: framed, skipped for a reason, or lost, which was never captured.",
    ("fate",),
    unit="bytes",
)
CAPTURE_DROPPED_PACKETS = Metric(
    "kipwatch_capture_dropped_packets_total",
    Kind.COUNTER,
    "Packets that the kernel dropped because the feeder did not keep up.",
)
BUILD_INFO = Metric(
    "kipwatch_build_info",
    Kind.GAUGE,
    "Always 1; the labels name the version of kipwatch and of Kafka's schemas.",
    ("version", "kafka"),
)

METRICS = (
    RULE_CHECKS,
    FINDINGS,
    CONNECTIONS,
    FRAMES,
    UNDECODABLE_FRAMES,
    CAPTURE_BYTES,
    CAPTURE_DROPPED_PACKETS,
    DETECTION_DELAY,
    BATCH_DURATION,
    LAST_BATCH_TIMESTAMP,
    TOPIC_LAG,
    STATE_BYTES,
    OPEN_CONNECTIONS,
    LABEL_OVERFLOW,
    BUILD_INFO,
)
"""Every metric of the application and the feeder."""


class ApplicationMetrics:
    """What the application exposes. All of it is filled by the one thread that runs the batches."""

    def __init__(
        self, rules: Iterable[str], *, version: str, kafka: str, label_limit: int = LABEL_LIMIT
    ) -> None:
        """`rules` are the IDs of all rules, `kafka` the release whose schemas are loaded."""
        self.registry = _registry(version, kafka)
        self.detection_delay = _histogram(DETECTION_DELAY, self.registry)
        self.batch_duration = _histogram(BATCH_DURATION, self.registry)
        self.last_batch_timestamp = _gauge(LAST_BATCH_TIMESTAMP, self.registry)
        self.topic_lag = _gauge(TOPIC_LAG, self.registry)
        self.state_bytes = _gauge(STATE_BYTES, self.registry)
        self.open_connections = _gauge(OPEN_CONNECTIONS, self.registry)
        self._checks = _counter(RULE_CHECKS, self.registry)
        self._findings = _counter(FINDINGS, self.registry)
        self._connections = _gauge(CONNECTIONS, self.registry)
        self._frames = _counter(FRAMES, self.registry)
        self._undecodable_frames = _counter(UNDECODABLE_FRAMES, self.registry)
        overflow = _counter(LABEL_OVERFLOW, self.registry)
        self._software, self._listeners, self._apis, self._reasons = (
            BoundedLabels(label_limit, overflow.inc) for _ in range(4)
        )
        self._shown: set[tuple[str, ...]] = set()
        for rule in rules:
            for verdict in Verdict:
                self._checks.labels(rule, verdict)

    def count_checks(self, rule: str, verdict: Verdict, amount: int = 1) -> None:
        self._checks.labels(rule, verdict).inc(amount)

    def count_findings(self, rule: str, level: str, role: str, software: Software, amount: int = 1) -> None:
        labels = self._software.admit(*software, amount=amount)
        self._findings.labels(rule, level, role, *labels).inc(amount)

    def count_frames(self, api: str, kind: str, amount: int = 1) -> None:
        self._frames.labels(*self._apis.admit(api, amount=amount), kind).inc(amount)

    def count_undecodable_frames(self, reason: str, amount: int = 1) -> None:
        self._undecodable_frames.labels(*self._reasons.admit(reason, amount=amount)).inc(amount)

    def show_connections(self, connections: Mapping[tuple[Software, str], int]) -> None:
        """Show how many connections are open, by software and listener.

        The mapping is the whole truth: what it no longer names leaves the page.
        """
        shown: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for (software, listener), count in connections.items():
            labels = self._software.admit(*software, amount=count)
            shown[labels + self._listeners.admit(listener, amount=count)] += count
        for labels, count in shown.items():
            self._connections.labels(*labels).set(count)
        for labels in self._shown - shown.keys():
            self._connections.remove(*labels)
        self._shown = set(shown)


class FeederMetrics:
    """What the feeder exposes."""

    def __init__(self, *, version: str, kafka: str) -> None:
        self.registry = _registry(version, kafka)
        self._dropped_packets = _counter(CAPTURE_DROPPED_PACKETS, self.registry)
        self._bytes = _counter(CAPTURE_BYTES, self.registry)
        self._accounted: dict[str, int] = {}
        self._dropped = 0

    def account_bytes(self, totals: Mapping[str, int]) -> None:
        """Raise each fate's counter to its total in the feeder's byte ledger."""
        for fate, total in totals.items():
            self._bytes.labels(fate).inc(total - self._accounted.get(fate, 0))
            self._accounted[fate] = total

    def account_drops(self, total: int) -> None:
        """Raise the counter of dropped packets to the kernel's total."""
        self._dropped_packets.inc(total - self._dropped)
        self._dropped = total


def _registry(version: str, kafka: str) -> CollectorRegistry:
    # Else each counter would carry a second, undocumented series with the time of its creation.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    _gauge(BUILD_INFO, registry).labels(version, kafka).set(1)
    return registry


def _counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    return Counter(metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry)


def _gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    return Gauge(metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry)


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry, buckets=metric.buckets
    )
