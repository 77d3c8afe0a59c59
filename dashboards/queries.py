"""Every question that dashboards and alerts ask Prometheus, in one place.

Names of metrics come from their one definition. `$rule`, `$software` and `$violation_rules` are the
dashboards' variables, `$__range` and `$__rate_interval` are Grafana's.
"""

from __future__ import annotations

from collections.abc import Iterable

from expectations.rule import Level, Rule, Verdict
from streaming import metrics
from streaming.metrics import Metric

CHOSEN_RULES = 'rule=~"$rule"'
CHOSEN_SOFTWARE = 'client_software_name=~"$software"'
VIOLATION_RULES = 'rule=~"$violation_rules"'
RULE_STATE = "rule:kipwatch_rule_checks:state5m"
"""Recorded by the alert rules' file: one of the states below, by rule."""

NEVER_EXERCISED, ONLY_UNDECIDED, CONFORMS, COULD_BE_BETTER, VIOLATES = range(5)


def verdict(*verdicts: Verdict) -> str:
    """A matcher of checks by their verdict."""
    operator = "=" if len(verdicts) == 1 else "=~"
    return f'verdict{operator}"{"|".join(verdicts)}"'


def select(metric: Metric, *matchers: str) -> str:
    """An instant vector selector: `name{matcher, …}`."""
    return f"{metric.name}{{{', '.join(matchers)}}}" if matchers else metric.name


def grown(metric: Metric, *matchers: str) -> str:
    """How far each series of a counter grew over the dashboard's range.

    `increase` alone loses the first value of a series that was born inside the range, and with it a
    first violation. Such a series began at 0, so its highest value is its growth.
    """
    series = select(metric, *matchers)
    return (
        f"((increase({series}[$__range]) and {series} offset $__range) or max_over_time({series}[$__range]))"
    )


def ids_of_level(rules: Iterable[Rule], level: Level) -> str:
    """A regular expression of the rules of one level; their IDs hold no character that means more."""
    return "|".join(sorted(rule.id for rule in rules if rule.level is level))


def violations_in_5_minutes(violation_rules: str) -> str:
    """Violations by rule, over five minutes. `increase` extrapolates, so the figure is about right."""
    offences = select(metrics.RULE_CHECKS, verdict(Verdict.VIOLATES), f'rule=~"{violation_rules}"')
    return f"sum by (rule) (increase({offences}[5m]))"


def state_in_5_minutes(violation_rules: str) -> str:
    """The gravest thing that happened to each rule in five minutes, as one of the states above.

    Undecided checks weigh less than decided ones: a join in mid-stream makes some every time.
    """
    violation, recommendation = f'rule=~"{violation_rules}"', f'rule!~"{violation_rules}"'
    happened = (
        _happened(VIOLATES, verdict(Verdict.VIOLATES), violation),
        _happened(COULD_BE_BETTER, verdict(Verdict.VIOLATES), recommendation),
        _happened(CONFORMS, verdict(Verdict.CONFORMS)),
        _happened(ONLY_UNDECIDED, verdict(Verdict.UNDECIDED)),
    )
    return f"max by (rule) ({' or '.join(happened)})"


def _happened(state: int, *matchers: str) -> str:
    """The state where such checks were made within five minutes, else 0."""
    return f"{state} * (increase({select(metrics.RULE_CHECKS, *matchers)}[5m]) > bool 0)"


VIOLATIONS = (
    f"round(sum({grown(metrics.RULE_CHECKS, verdict(Verdict.VIOLATES), VIOLATION_RULES, CHOSEN_RULES)}))"
)
CHECKS = f"round(sum({grown(metrics.RULE_CHECKS, CHOSEN_RULES)}))"
RULES = f"count(sum by (rule) ({select(metrics.RULE_CHECKS, CHOSEN_RULES)}))"
DECIDED_BY_RULE = (
    f"round(sum by (rule) ("
    f"{grown(metrics.RULE_CHECKS, verdict(Verdict.CONFORMS, Verdict.VIOLATES), CHOSEN_RULES)}))"
)
RULES_EXERCISED = f"count({DECIDED_BY_RULE} > 0) or vector(0)"
UNDECIDED_SHARE = (
    f"sum({grown(metrics.RULE_CHECKS, verdict(Verdict.UNDECIDED), CHOSEN_RULES)})"
    f" / (sum({grown(metrics.RULE_CHECKS, CHOSEN_RULES)}) > 0)"
)
STATE_BY_RULE = f"max by (rule) ({RULE_STATE}{{{CHOSEN_RULES}}})"
FINDINGS_BY_SOFTWARE = (
    "round(sum by (rule, level, client_software_name, client_software_version) ("
    f"{grown(metrics.FINDINGS, CHOSEN_RULES, CHOSEN_SOFTWARE)})) > 0"
)
CONNECTIONS_BY_SOFTWARE = (
    f"sum by (client_software_name, client_software_version) ({select(metrics.CONNECTIONS, CHOSEN_SOFTWARE)})"
)
SECONDS_SINCE_BATCH = f"time() - max({metrics.LAST_BATCH_TIMESTAMP.name})"
LAG = f"sum({metrics.TOPIC_LAG.name})"
DROPPED_PACKETS = f"round(sum({grown(metrics.CAPTURE_DROPPED_PACKETS)}))"
UNDECODABLE_FRAMES = f"round(sum({grown(metrics.UNDECODABLE_FRAMES)})) or vector(0)"
BYTES_BY_FATE = f"sum by (fate) (rate({metrics.CAPTURE_BYTES.name}[$__rate_interval]))"


def checks_by_rule(of: Verdict) -> str:
    """Checks with one verdict over the dashboard's range, by rule."""
    return f"round(sum by (rule) ({grown(metrics.RULE_CHECKS, verdict(of), CHOSEN_RULES)}))"


def quantile(fraction: float, metric: Metric) -> str:
    """A quantile of a histogram, over the panel's step."""
    return f"histogram_quantile({fraction}, sum by (le) (rate({metric.name}_bucket[$__rate_interval])))"
