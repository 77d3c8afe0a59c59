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
from streaming.bulk_histogram import BulkHistogram
from streaming.label_values import LABEL_LIMIT, BoundedLabels


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
QUERY_ENDINGS = Metric(
    "kipwatch_query_endings_total",
    Kind.COUNTER,
    "Times that the query ended by itself, by reason. After one that passes it starts again.",
    ("reason",),
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
CAPTURE_PACKETS = Metric(
    "kipwatch_capture_packets_total",
    Kind.COUNTER,
    "Captured packets: tcp where a segment was read, own, or the reason why the packet was skipped.",
    ("fate",),
)
CAPTURE_OPAQUE = Metric(
    "kipwatch_capture_opaque_connections_total",
    Kind.COUNTER,
    "Connections to the watched ports that are not Kafka, such as TLS, and are left alone.",
)
CAPTURE_DROPPED_PACKETS = Metric(
    "kipwatch_capture_dropped_packets_total",
    Kind.COUNTER,
    "Packets that the kernel dropped because the feeder did not keep up.",
)
FEED_RECORDS = Metric(
    "kipwatch_feed_records_total",
    Kind.COUNTER,
    "Records of the feeder by fate: delivered to Kafka, refused by it, or shed because it was slow or away.",
    ("fate",),
)
FEED_SHED_BYTES = Metric(
    "kipwatch_feed_shed_bytes_total",
    Kind.COUNTER,
    "Bytes of the watched connections that were captured and not published; gaps in the topic say where.",
    unit="bytes",
)
FEED_WAITING_BYTES = Metric(
    "kipwatch_feed_waiting_bytes",
    Kind.GAUGE,
    "Memory of the records that wait for Kafka.",
    unit="bytes",
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
    CAPTURE_PACKETS,
    CAPTURE_OPAQUE,
    CAPTURE_DROPPED_PACKETS,
    FEED_RECORDS,
    FEED_SHED_BYTES,
    FEED_WAITING_BYTES,
    DETECTION_DELAY,
    BATCH_DURATION,
    LAST_BATCH_TIMESTAMP,
    TOPIC_LAG,
    QUERY_ENDINGS,
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
        self.detection_delay = _bulk_histogram(DETECTION_DELAY, self.registry)
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
        self._endings = _counter(QUERY_ENDINGS, self.registry)
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

    def count_ending(self, reason: str) -> None:
        """Count an ending of the query; reasons are those that `streaming.query.ending` knows."""
        self._endings.labels(reason).inc()

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
        self._dropped_packets = _Total(_counter(CAPTURE_DROPPED_PACKETS, self.registry))
        self._shed_bytes = _Total(_counter(FEED_SHED_BYTES, self.registry))
        self._bytes = _counter(CAPTURE_BYTES, self.registry)
        self._packets = _counter(CAPTURE_PACKETS, self.registry)
        self._opaque = _Total(_counter(CAPTURE_OPAQUE, self.registry))
        self._records = _counter(FEED_RECORDS, self.registry)
        self._waiting_bytes = _gauge(FEED_WAITING_BYTES, self.registry)
        self._totals: dict[Counter, dict[str, _Total]] = {
            self._bytes: {},
            self._packets: {},
            self._records: {},
        }

    def account_bytes(self, totals: Mapping[str, int]) -> None:
        """Raise each fate's counter to its total in the feeder's byte ledger."""
        self._account(self._bytes, totals)

    def account_packets(self, totals: Mapping[str, int], *, opaque_connections: int) -> None:
        """Raise the counters of packets by fate, and of connections that are not Kafka."""
        self._account(self._packets, totals)
        self._opaque.reach(opaque_connections)

    def account_drops(self, total: int) -> None:
        """Raise the counter of dropped packets to the kernel's total."""
        self._dropped_packets.reach(total)

    def account_records(self, totals: Mapping[str, int], *, shed_bytes: int, waiting_bytes: int) -> None:
        """Raise the counters of the records' fates and of shed bytes to their totals."""
        self._account(self._records, totals)
        self._shed_bytes.reach(shed_bytes)
        self._waiting_bytes.set(waiting_bytes)

    def _account(self, counter: Counter, totals: Mapping[str, int]) -> None:
        known = self._totals[counter]
        for fate, total in totals.items():
            if fate not in known:
                known[fate] = _Total(counter.labels(fate))
            known[fate].reach(total)


class _Total:
    """A counter that is raised to totals which somebody else keeps."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._reached = 0

    def reach(self, total: int) -> None:
        self._counter.inc(total - self._reached)
        self._reached = total


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


def _bulk_histogram(metric: Metric, registry: CollectorRegistry) -> BulkHistogram:
    histogram = BulkHistogram(metric.name, metric.help, metric.buckets, metric.unit)
    registry.register(histogram)
    return histogram


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry, buckets=metric.buckets
    )
