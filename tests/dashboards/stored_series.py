"""A real Prometheus over series that a test has written, and what a panel shows of them."""

from __future__ import annotations

import json
import math
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaming.broker.ports import free_ports
from streaming.observe import start_prometheus
from tests.dashboards.dashboard_files import DASHBOARDS, everything_on, filled
from tests.dashboards.prometheus import promtool

SCRAPE = 15
"""Seconds between two samples, as in the committed configuration."""
BATCHES = 'kipwatch_last_batch_timestamp_seconds{job="kipwatch"}'
FRAMES = 'kipwatch_frames_total{job="kipwatch",api="Fetch",kind="request"}'
Row = dict[str, Any]
Values = Callable[[int], float | None]
"""The value of a series some seconds before the end; None where it does not exist."""


def always(value: float) -> Values:
    """Return the values of a series that does not change."""
    return lambda before: value


@dataclass(frozen=True, slots=True)
class Stored:
    """A Prometheus, asked as Grafana asks it. `end` is the end of the dashboard's range."""

    url: str
    end: int

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the data of a path of the API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as got:
            return json.load(got)["data"]

    def figure(self, uid: str, title: str, *, span: str = "1h") -> float | None:
        """Return what a figure shows, None for nothing."""
        target, *_ = panel(uid, title)["targets"]
        found = self.get("query", query=filled(target["expr"], span=span), time=self.end)["result"]
        return float(found[0]["value"][1]) if found else None

    def rows(self, uid: str, title: str, *, span: str = "1h") -> list[Row]:
        """Return the rows of a table by the headers of columns: labels as texts, values as numbers."""
        shown = panel(uid, title)
        several = len(shown["targets"]) > 1
        merged: dict[str, Row] = {}
        for target in shown["targets"]:
            field = f"Value #{target['refId']}" if several else "Value"
            for found in self.get("query", query=filled(target["expr"], span=span), time=self.end)["result"]:
                row = merged.setdefault(json.dumps(found["metric"], sort_keys=True), dict(found["metric"]))
                row[field] = float(found["value"][1])
        headers = next(
            step["options"]["renameByName"] for step in shown["transformations"] if step["id"] == "organize"
        )
        return [
            {header: row[name] for name, header in headers.items() if name in row} for row in merged.values()
        ]

    def lines(self, uid: str, title: str, *, span: int = 3600, step: int = 60) -> dict[str, list[float]]:
        """Return the values of each line of a graph, by its labels."""
        (target,) = panel(uid, title)["targets"]
        query = filled(target["expr"], span=f"{span}s", interval=f"{step}s")
        found = self.get("query_range", query=query, start=self.end - span, end=self.end, step=step)["result"]
        return {
            " ".join(value for name, value in sorted(line["metric"].items()) if name != "__name__"): [
                float(value) for _, value in line["values"]
            ]
            for line in found
        }


@contextmanager
def stored(series: dict[str, Values], folder: Path, *, hours: int = 4) -> Iterator[Stored]:
    """Write series of the last hours to a database and start a Prometheus over it.

    Counters began with their first values, if no series says otherwise. A batch was finished at each scrape,
    and a frame read.
    """
    end = int(time.time()) // 60 * 60 - 60
    metrics: dict[str, list[str]] = {}
    scrapes = range(end - hours * 3600, end + 1, SCRAPE)
    _add(metrics, BATCHES, [(moment, moment) for moment in scrapes])
    _add(metrics, FRAMES, [(moment, number) for number, moment in enumerate(scrapes)])
    for name, value in series.items():
        known = ((before, value(before)) for before in range(hours * 3600, -1, -SCRAPE))
        samples = [(end - before, number) for before, number in known if number is not None]
        _add(metrics, name, samples)
        created = name.replace("_total{", "_created{")
        if created not in series:
            _add(metrics, created, _births(samples))
    lines = [line for metric in metrics.values() for line in metric]
    (folder / "series.txt").write_text("\n".join([*lines, "# EOF\n"]))
    promtool("tsdb", "create-blocks-from", "openmetrics", folder / "series.txt", folder / "prometheus")
    (folder / "prometheus.yml").write_text("{}")
    with start_prometheus("prometheus", folder / "prometheus.yml", free_ports(1)[0], folder) as server:
        server.wait()
        yield Stored(server.url, end)


def _add(metrics: dict[str, list[str]], name: str, samples: Iterable[tuple[int, float]]) -> None:
    """Add the samples of a series, in OpenMetrics' text, to those of its metric."""
    # OpenMetrics wants the type of a metric once, before all of its series.
    metric = name.partition("{")[0]
    lines = metrics.setdefault(metric, [f"# TYPE {metric} unknown"])
    lines += [f"{name} {number} {moment}" for moment, number in samples]


def _births(samples: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """When a counter began, as its exporter tells at each sample: with its first value, and where it fell."""
    born, before = 0, math.inf
    for moment, number in samples:
        born = moment if number < before else born
        before = number
        yield moment, born


def panel(uid: str, title: str) -> dict[str, Any]:
    """Return a panel of a dashboard by its title."""
    (found,) = (each for each in everything_on(DASHBOARDS[uid]) if each["title"] == title)
    return found
