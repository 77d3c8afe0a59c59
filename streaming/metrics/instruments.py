"""Prometheus counters, gauges and histograms, made of the definitions of metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from streaming.metrics.bulk_histogram import BulkHistogram
from streaming.metrics.definitions import BUILD_INFO, Metric


def page(version: str, kafka: str) -> CollectorRegistry:
    """A registry with `kipwatch_build_info` alone: the versions of kipwatch and of the schemas."""
    # Otherwise each counter would carry a second, undocumented series with the time of its creation.
    disable_created_metrics()  # type: ignore[no-untyped-call]
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
