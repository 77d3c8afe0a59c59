"""Every question that the dashboards ask Prometheus, in one place.

`$job`, `$rule` and `$software` are the dashboards' variables, `$__range` and `$__rate_interval` Grafana's.
What may be nothing on a healthy system is written so that it is 0 as long as kipwatch is scraped, and nothing
when it is not: a zero must never stand for "blind".
"""

from __future__ import annotations

from dashboards.promql import DECIDED, grown, level, one_of, quantile, role, select, share, total, verdict
from dashboards.recordings import COULD_BE_BETTER, LOST, RULE_STATE, UNDECODABLE, VIOLATES, slow_share
from expectations.rules.base.rule import Level, Role, Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.label_values import UNKNOWN

JOB = 'job=~"$job"'
RULE = 'rule=~"$rule"'
SOFTWARE = 'client_software_name=~"$software"'
RANGE, RATE = "$__range", "$__rate_interval"
BY_SOFTWARE = metrics.SOFTWARE
MILLISECONDS = 1000
"""Grafana counts its dates in them."""


def growth(metric: Metric, *matchers: str) -> str:
    """How far the chosen series of a counter grew over the dashboard's range."""
    return grown(select(metric, JOB, *matchers), RANGE)


def rate(metric: Metric | str, *by: str) -> str:
    """How fast a counter grows at each step, by some labels if any are named."""
    return total(f"rate({select(metric, JOB)}[{RATE}])", *by)


def gauge(metric: Metric) -> str:
    """A gauge, over all jobs chosen."""
    return total(select(metric, JOB))


def or_zero(expression: str) -> str:
    """0 where there is nothing though the application is scraped."""
    return f"{expression} or 0 * {total(select(metrics.RULE_CHECKS, JOB))}"


def offences(*matchers: str) -> str:
    """Offences over the dashboard's range, by all labels that findings have."""
    return growth(metrics.FINDINGS, RULE, SOFTWARE, *matchers)


def checks(*matchers: str) -> str:
    """Checks over the dashboard's range, by rule and verdict."""
    return growth(metrics.RULE_CHECKS, RULE, *matchers)


def checks_by_rule(*verdicts: Verdict) -> str:
    """Checks with these verdicts over the range, by rule."""
    return f"round({total(checks(verdict(*verdicts)), 'rule')})"


VIOLATIONS = or_zero(f"round({total(offences(level(Level.VIOLATION)))})")
CHECKS = f"round({total(checks())})"
RULES = f"count({total(select(metrics.RULE_CHECKS, JOB, RULE), 'rule')})"
RULES_EXERCISED = or_zero(f"count({checks_by_rule(*DECIDED)} > 0)")
UNDECIDED_SHARE = share(total(checks(verdict(Verdict.UNDECIDED))), total(checks()))
STATE_BY_RULE = f"max by (rule) ({select(RULE_STATE, JOB, RULE)})"
OFFENCES_BY_RULE_AND_SOFTWARE = f"round({total(offences(), 'rule', 'level', *BY_SOFTWARE)}) > 0"


def moments(state: int) -> str:
    """When, within the range and to the minute, each chosen rule was in a state or a graver one."""
    return f"timestamp({select(RULE_STATE, JOB, RULE)} >= {state})[{RANGE}:1m]"


SINCE_VIOLATION = f"time() - max(max_over_time({moments(VIOLATES)}))"
FIRST_SEEN = f"{MILLISECONDS} * min(min_over_time({moments(COULD_BE_BETTER)}))"
LAST_SEEN = f"{MILLISECONDS} * max(max_over_time({moments(COULD_BE_BETTER)}))"
FIRST_SEEN_BY_RULE = f"{MILLISECONDS} * min by (rule) (min_over_time({moments(COULD_BE_BETTER)}))"
LAST_SEEN_BY_RULE = f"{MILLISECONDS} * max by (rule) (max_over_time({moments(COULD_BE_BETTER)}))"
OFFENCES = or_zero(f"round({total(offences())})")
OFFENDING_SOFTWARE = or_zero(f"count({total(offences(), *BY_SOFTWARE)} > 0)")
OFFENCE_RATE_BY_SOFTWARE = total(
    f"rate({select(metrics.FINDINGS, JOB, RULE, SOFTWARE)}[{RATE}])", *BY_SOFTWARE
)
CHECK_RATE_BY_VERDICT = total(f"rate({select(metrics.RULE_CHECKS, JOB, RULE)}[{RATE}])", "verdict")
OFFENCES_BY_RULE = f"round({total(offences(), 'rule')}) > 0"

OPEN_BY_SOFTWARE = total(select(metrics.CONNECTIONS, JOB, SOFTWARE), *BY_SOFTWARE)
OPEN_BY_LISTENER = total(select(metrics.CONNECTIONS, JOB, SOFTWARE), "listener")


def most_open(*matchers: str) -> str:
    """The most connections that were open at once within the range, by all labels that they have."""
    return f"max_over_time({select(metrics.CONNECTIONS, JOB, *matchers)}[{RANGE}])"


CONNECTED_SOFTWARE = or_zero(f"count({total(most_open(SOFTWARE), *BY_SOFTWARE)})")
MOST_OPEN_BY_SOFTWARE = total(most_open(SOFTWARE), *BY_SOFTWARE)
NAMELESS_SHARE = or_zero(
    share(total(most_open(one_of("client_software_name", [UNKNOWN]))), total(most_open()))
)


def client_offences(of: Level, *by: str) -> str:
    """Offences of clients at a level over the range, summed by some labels."""
    return f"round({total(offences(role(Role.CLIENT), level(of)), *by)}) > 0"


def offending_clients(of: Level) -> str:
    """How many versions of client software offended at a level, over the range."""
    return or_zero(f"count({client_offences(of, *BY_SOFTWARE)})")


SECONDS_SINCE_BATCH = f"time() - max({select(metrics.LAST_BATCH_TIMESTAMP, JOB)} > 0)"
LAG = gauge(metrics.TOPIC_LAG)
STATE_BYTES = gauge(metrics.STATE_BYTES)
OPEN_CONNECTIONS = gauge(metrics.OPEN_CONNECTIONS)
WAITING_BYTES = gauge(metrics.FEED_WAITING_BYTES)
DROPPED_PACKETS = f"round({total(growth(metrics.CAPTURE_DROPPED_PACKETS))})"
LABEL_OVERFLOW = f"round({total(growth(metrics.LABEL_OVERFLOW))})"
UNDECODABLE_SHARE = or_zero(f"max({select(UNDECODABLE, JOB)})")
UNDECODABLE_BY_REASON = f"round({total(growth(metrics.UNDECODABLE_FRAMES), 'reason')})"
LOST_SHARE = f"max({select(LOST, JOB)})"
LOST_BY_FEEDER = f"max by (instance) ({select(LOST, JOB)})"
SLOW_SHARE = or_zero(slow_share(JOB, window=RANGE))
BUILDS = f"max by (job, version, kafka) ({select(metrics.BUILD_INFO, JOB)})"
FRAMES_BY_KIND = rate(metrics.FRAMES, "kind")
FRAMES_BY_API = f"topk(10, {rate(metrics.FRAMES, 'api')})"
BYTES_BY_FATE = rate(metrics.CAPTURE_BYTES, "fate")
PACKETS_BY_FATE = rate(metrics.CAPTURE_PACKETS, "fate")
OPAQUE_CONNECTIONS = f"round({total(growth(metrics.CAPTURE_OPAQUE))})"
ENDINGS_BY_REASON = f"round({total(growth(metrics.QUERY_ENDINGS), 'reason')})"
FINDINGS_REFUSED = f"round({total(growth(metrics.FINDINGS_REFUSED))})"
RECORDS_BY_FATE = rate(metrics.FEED_RECORDS, "fate")
SHED_BYTES = rate(metrics.FEED_SHED_BYTES)


def quantile_of(fraction: float, metric: Metric) -> str:
    """A quantile of a histogram at each step."""
    return quantile(fraction, select(f"{metric.name}_bucket", JOB), RATE)
