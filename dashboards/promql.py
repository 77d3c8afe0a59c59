"""The pieces that queries are made of: selectors, growth of counters, quantiles, shares."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.rules.base.rule import Level, Role, Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.software_labels import FORMER

DECIDED = (Verdict.CONFORMS, Verdict.VIOLATES)
BRIDGED = "10m"
"""A series that is absent for less, such as during failed scrapes, is the same series afterwards."""


def select(metric: Metric | str, *matchers: str) -> str:
    """An instant vector selector: `name{matcher, …}`, of a metric or of a recorded series."""
    name = metric if isinstance(metric, str) else metric.name
    return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def findings(*matchers: str) -> str:
    """A selector of findings. What is counted as former was counted under the software's name before."""
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
    """A matcher of any of some values, which hold no character that means more in a regular expression."""
    alternatives = "|".join(values)
    return f'{label}{"=~" if "|" in alternatives else "="}"{alternatives}"'


def none_of(label: str, values: Iterable[str]) -> str:
    """A matcher of anything else."""
    return f'{label}!~"{"|".join(values)}"'


def grown(series: str, window: str) -> str:
    """How far each series of a counter grew within a window.

    `increase` alone loses the first value of a series that was born inside the window, and with it a
    first violation. Such a series began at 0, so its highest value is its growth.
    """
    return (
        f"((increase({series}[{window}]) and {series} offset {window}) or max_over_time({series}[{window}]))"
    )


def stepped(series: str, step: str) -> str:
    """How far each series of a counter grew in the step before, exactly and without losing its birth.

    `rate` and `increase` need two samples within the step, so they see neither the first offence of a series
    nor a growth that falls between two steps. A series that was not scraped for less than BRIDGED goes on;
    one that fell was started anew and grew to what it is.
    """
    before = f"last_over_time({series}[{BRIDGED}] offset {step})"
    return f"({series} - {before} >= 0 or {series})"


def total(expression: str, *labels: str) -> str:
    """The sum, by some labels if any are named."""
    return f"sum by ({', '.join(labels)}) ({expression})" if labels else f"sum({expression})"


def quantile(fraction: float, buckets: str, window: str) -> str:
    """A quantile of a histogram, from the selector of its buckets."""
    return f"histogram_quantile({fraction}, sum by (le) (rate({buckets}[{window}])))"


def share(part: str, whole: str) -> str:
    """One sum as a share of another; nothing where the whole is nothing."""
    return f"{part} / ({whole} > 0)"
