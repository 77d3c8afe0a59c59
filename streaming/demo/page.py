"""Scrapes and parses a metrics page."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT = 5.0
"""Seconds."""


class MetricsPage:
    """The samples of one scrape: (name, labels) → value."""

    def __init__(self, text: str) -> None:
        self._samples = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        return sum(
            value for sample, own, value in self._samples if sample == name and labels.items() <= own.items()
        )

    def by(self, name: str, *labels: str) -> Mapping[tuple[str, ...], float]:
        """Return the sums of a metric's samples by some of its labels."""
        sums: dict[tuple[str, ...], float] = {}
        for sample, own, value in self._samples:
            if sample == name:
                key = tuple(own[label] for label in labels)
                sums[key] = sums.get(key, 0.0) + value
        return sums


def scrape(address: str) -> MetricsPage | None:
    """Read the page at host:port; None if there is no response."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT) as response:
            return MetricsPage(response.read().decode())
    except (urllib.error.URLError, OSError):
        return None
