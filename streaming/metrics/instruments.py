"""Prometheus counters, gauges and histograms, made of the definitions of metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from threading import Lock

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, enable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from streaming.metrics.definitions import BUILD_INFO, Metric


class BulkHistogram(Collector):
    """A histogram without labels, which counts thousands of equal observations in one step.

    `bounds` are the upper bounds of its buckets, without the infinite one.
    """

    def __init__(self, name: str, documentation: str, bounds: Sequence[float], unit: str = "") -> None:
        self._name, self._documentation, self._unit = name, documentation, unit
        self._bounds = [*bounds, float("inf")]
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
        self._lock = Lock()

    def observe(self, value: float, count: int = 1) -> None:
        """Count `count` observations of a value."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += count
            self._sum += value * count

    def collect(self) -> Iterable[prometheus_client.Metric]:
        """Yield the family of this one metric, as the registry requires."""
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        names = [*(str(float(bound)) for bound in self._bounds[:-1]), "+Inf"]
        buckets = list(zip(names, map(float, counts), strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets, total, unit=self._unit)


def page(version: str, kafka: str) -> CollectorRegistry:
    """A registry with `kipwatch_build_info` alone: the versions of kipwatch and of the schemas."""
    # The variable PROMETHEUS_DISABLE_CREATED_SERIES would make a first offence look like no growth.
    enable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    gauge(BUILD_INFO, registry).labels(version, kafka).set(1)
    return registry


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """A metric that only grows."""
    return Counter(metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """A metric that goes up and down."""
    return Gauge(metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    """A metric that is observed one value at a time."""
    return Histogram(
        metric.name, metric.help, metric.labels, unit=metric.unit, registry=registry, buckets=metric.buckets
    )


def bulk_histogram(metric: Metric, registry: CollectorRegistry) -> BulkHistogram:
    """A metric that is observed many equal values at a time."""
    made = BulkHistogram(metric.name, metric.help, metric.buckets, metric.unit)
    registry.register(made)
    return made
