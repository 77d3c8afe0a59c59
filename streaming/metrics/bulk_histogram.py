"""A histogram that counts equal observations together: one step for thousands of frames."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from threading import Lock

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BulkHistogram(Collector):
    """A histogram without labels. `bounds` are the upper bounds of its buckets, the infinite one left out."""

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

    def collect(self) -> Iterable[Metric]:
        """Return the family of this one metric, as the registry requires."""
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        names = [*(str(float(bound)) for bound in self._bounds[:-1]), "+Inf"]
        buckets = list(zip(names, map(float, counts), strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets, total, unit=self._unit)
