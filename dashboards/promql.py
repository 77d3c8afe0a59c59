"""The pieces that queries are made of: selectors, growth of counters, quantiles, shares."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.rules.base.rule import Level, Role, Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.labels import FORMER

DECIDED = (Verdict.CONFORMS, Verdict.VIOLATES)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds in a unit of PromQL's durations."""
BRIDGED = "10m"
"""A series that is absent for less, as during failed scrapes, counts as the same series."""


def select(metric: Metric | str, *matchers: str) -> str:
    """An instant vector selector: `name{matcher, …}`, of a metric or of a recorded series."""
    name = metric if isinstance(metric, str) else metric.name
    return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def findings(*matchers: str) -> str:
    """A selector of findings, except of `former`, which were counted under the software's name before."""
    return select(metrics.FINDINGS, *matchers, f'client_software_name!="{FORMER}"')


def verdict(*verdicts: Verdict) -> str:
    """A matcher of checks by their verdict."""
    return one_of("verdict", verdicts)


def level(*levels: Level) -> str:
    """A matcher of findings by the level of the judgement, which may differ from the rule's own."""
    return one_of("level", levels)


def role(fault: Role) -> str:
    """A matcher of findings by who is at fault."""
    return one_of("role", [fault])


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher of any of some values, which have no special characters of regular expressions."""
    alternatives = "|".join(values)
    return f'{label}{"=~" if "|" in alternatives else "="}"{alternatives}"'


def none_of(label: str, values: Iterable[str]) -> str:
    """A matcher of all other values."""
    return f'{label}!~"{"|".join(values)}"'


def grown(series: str, window: str) -> str:
    """How far each series of a counter grew within a window.

    `increase` counts from the first value that it sees, so it misses the first value of a series that was
    born inside the window, and with it a first violation. Such a series grew by its highest value. The
    exporter tells when it was born (`_born`); a first value proves nothing, since Prometheus may start late
    or miss scrapes. A series that was restarted grew by `increase` if that exceeds its highest value.
    """
    increase, highest = f"increase({series}[{window}])", f"max_over_time({series}[{window}])"
    is_restarted = f"resets({series}[{window}]) > 0"
    is_born = f"min_over_time({_born(series)}[{window}]) > time() - {seconds_of(window)}"
    return f"({increase} > {highest} and {is_restarted} or {highest} and {is_born} or {increase})"


def stepped(series: str, step: str) -> str:
    """How far each series of a counter grew in the step before, exactly and with its first value.

    `rate` and `increase` need two samples within the step, so they miss the first offence of a series, and
    growth that falls between two steps. A series that is absent for less than BRIDGED goes on. One that is
    seen for the first time, or has fallen, and was born within that time has grown by its value.
    """
    before = f"last_over_time({series}[{BRIDGED}] offset {step})"
    is_born = f"{_born(series)} > time() - {seconds_of(step)} - {seconds_of(BRIDGED)}"
    return f"({series} - {before} >= 0 or {series} and {is_born})"


def _born(series: str) -> str:
    """The selector of the times at which the series of a counter began at 0, in seconds since the epoch."""
    return series.replace("_total", "_created", 1)


def seconds_of(window: str) -> str:
    """The length of a window in seconds, as a number of PromQL."""
    grafana = {"$__range": "$__range_s", "$__interval": "$__interval_ms / 1000"}
    return grafana.get(window) or str(int(window[:-1]) * SECONDS[window[-1]])


def total(expression: str, *labels: str) -> str:
    """The sum, by some labels if any are named."""
    return f"sum by ({', '.join(labels)}) ({expression})" if labels else f"sum({expression})"


def counted(growth: str, *labels: str) -> str:
    """The growth of counters as a whole number, by some labels if any are named: Prometheus extrapolates."""
    return f"round({total(growth, *labels)})"


def quantile(fraction: float, buckets: str, window: str) -> str:
    """A quantile of a histogram, from the selector of its buckets."""
    return f"histogram_quantile({fraction}, sum by (le) (rate({buckets}[{window}])))"


def share(some: str, whole: str) -> str:
    """One sum as a share of another; empty where the whole is 0."""
    return f"{some} / ({whole} > 0)"


def part(some: str, whole: str) -> str:
    """The share of what may have no series: 0 without one, and empty where the whole is 0."""
    return share(f"({some} or 0 * {whole})", whole)
