"""What the dashboards ask Prometheus, but for offences.

`$job`, `$rule` and `$software` are the dashboards' variables, `$__range` and `$__rate_interval` Grafana's.
What may be nothing on a healthy system is written so that it is 0 as long as kipwatch is scraped, and nothing
when it is not: a zero must never stand for "blind".
"""

from __future__ import annotations

from dashboards.presence_alerts import WATCHDOG
from dashboards.promql import (
    BRIDGED,
    DECIDED,
    grown,
    none_of,
    one_of,
    quantile,
    select,
    share,
    stepped,
    total,
    verdict,
)
from dashboards.recordings import COULD_BE_BETTER, LOST, RULE_STATE, UNDECODABLE, slow_share
from expectations.rules.base.rule import Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.label_values import UNKNOWN

JOB = 'job=~"$job"'
RULE = 'rule=~"$rule"'
INSTANCE = 'instance=~"$instance"'
SOFTWARE = 'client_software_name=~"$software"'
FEEDER = f"{JOB}, {INSTANCE}"
RANGE, RATE = "$__range", "$__rate_interval"
BY_SOFTWARE = metrics.SOFTWARE
INTERVAL = "$__interval"
MILLISECONDS = 1000
"""Grafana counts its dates in them."""
STEP = "1m"
"""How exactly the time of an offence within the range is told, and the narrowest bar of a graph."""
NO_WATCHDOG = none_of("alertname", [WATCHDOG])


def growth(metric: Metric, *matchers: str) -> str:
    """How far the chosen series of a counter grew over the dashboard's range."""
    return grown(select(metric, JOB, *matchers), RANGE)


def rate(metric: Metric, *by: str, of: str = JOB) -> str:
    """How fast a counter grows at each step, by some labels if any are named."""
    return total(f"rate({select(metric, of)}[{RATE}])", *by)


def gauge(metric: Metric, of: str = JOB) -> str:
    """A gauge, over all jobs chosen."""
    return total(select(metric, of))


def or_zero(expression: str) -> str:
    """0 where there is nothing though the application is scraped."""
    return f"{expression} or 0 * {total(select(metrics.RULE_CHECKS, JOB))}"


def checks(*matchers: str) -> str:
    """Checks over the dashboard's range, by rule and verdict."""
    return growth(metrics.RULE_CHECKS, RULE, *matchers)


def checks_by_rule(*verdicts: Verdict) -> str:
    """Checks with these verdicts over the range, by rule."""
    return f"round({total(checks(verdict(*verdicts)), 'rule')})"


CHECKS = f"round({total(checks())})"
RULES = f"count({total(select(metrics.RULE_CHECKS, JOB, RULE), 'rule')})"
RULES_EXERCISED = or_zero(f"count({checks_by_rule(*DECIDED)} > 0)")
UNDECIDED_SHARE = share(total(checks(verdict(Verdict.UNDECIDED))), total(checks()))
STATE_BY_RULE = f"max by (rule) ({select(RULE_STATE, JOB, RULE)})"
_WORST_BY_RULE = f"max by (rule) (max_over_time({select(RULE_STATE, JOB, RULE)}[{RANGE}] @ end()))"
STATE_OF_OFFENDED = f"{STATE_BY_RULE} and on (rule) {_WORST_BY_RULE} >= {COULD_BE_BETTER}"
STATE_OF_OTHERS = f"{STATE_BY_RULE} and on (rule) {_WORST_BY_RULE} < {COULD_BE_BETTER}"
CHECK_RATE_BY_VERDICT = total(f"rate({select(metrics.RULE_CHECKS, JOB, RULE)}[{RATE}])", "verdict")


def firing(*matchers: str) -> str:
    """Alerts that fire, of the chosen jobs and those that concern no single job."""
    return select("ALERTS", 'alertstate="firing"', 'watches=~"kafka|kipwatch"', 'job=~"$job|"', *matchers)


def restarts(counter: Metric) -> str:
    """Where a counter began anew in the minute before."""
    counted = select(counter, JOB)
    return f"max by (job, instance) ({counted} < last_over_time({counted}[{BRIDGED}] offset {STEP}))"


RANGES_CHANGED = f"{total(stepped(select(metrics.RANGES_CHANGES, JOB), STEP), 'listener')} > 0"
FIRING = f"max by (alertname, severity, rule, client_software_name, instance) ({firing(NO_WATCHDOG)})"
FIRING_COUNT = or_zero(f"count({FIRING})")

OPEN_BY_SOFTWARE = total(select(metrics.CONNECTIONS, JOB, SOFTWARE), *BY_SOFTWARE)
OPEN_BY_LISTENER = total(select(metrics.CONNECTIONS, JOB, SOFTWARE), "listener")


def most_open(*matchers: str) -> str:
    """The most connections that were open at once within the range, by all labels that they have."""
    return f"max_over_time({select(metrics.CONNECTIONS, JOB, *matchers)}[{RANGE}])"


MOST_OPEN_BY_SOFTWARE = total(most_open(SOFTWARE), *BY_SOFTWARE)
NAMELESS_SHARE = or_zero(
    share(total(most_open(one_of("client_software_name", [UNKNOWN]))), total(most_open()))
)


SECONDS_SINCE_BATCH = f"time() - max({select(metrics.LAST_BATCH_TIMESTAMP, JOB)} > 0)"
LAG = gauge(metrics.TOPIC_LAG)
STATE_BYTES = gauge(metrics.STATE_BYTES)
OPEN_CONNECTIONS = gauge(metrics.OPEN_CONNECTIONS)
WAITING_BYTES = gauge(metrics.FEED_WAITING_BYTES, FEEDER)
DROPPED_PACKETS = f"round({total(growth(metrics.CAPTURE_DROPPED_PACKETS, INSTANCE))})"
LABEL_OVERFLOW = f"round({total(growth(metrics.LABEL_OVERFLOW))})"
UNDECODABLE_SHARE = or_zero(f"max({select(UNDECODABLE, JOB)})")
UNDECODABLE_BY_REASON = f"round({total(growth(metrics.UNDECODABLE_FRAMES), 'reason')}) > 0"
LOST_SHARE = f"max({select(LOST, JOB)})"
LOST_BY_FEEDER = f"max by (instance) ({select(LOST, FEEDER)})"
SLOW_SHARE = or_zero(slow_share(JOB, window=RANGE))
BUILDS = f"max by (job, version, kafka) ({select(metrics.BUILD_INFO, JOB)})"
FRAMES_BY_KIND = rate(metrics.FRAMES, "kind")
FRAMES_BY_API = f"topk(10, {rate(metrics.FRAMES, 'api')})"
BYTES_BY_FATE = rate(metrics.CAPTURE_BYTES, "fate", of=FEEDER)
BYTES_BY_PORT = rate(metrics.CAPTURE_PORT_BYTES, "port", "fate", of=FEEDER)
PACKETS_BY_FATE = rate(metrics.CAPTURE_PACKETS, "fate", of=FEEDER)
OPAQUE_CONNECTIONS = f"round({total(growth(metrics.CAPTURE_OPAQUE, INSTANCE))})"
TLS_CONNECTIONS_BY_OUTCOME = f"round({total(growth(metrics.TLS_CONNECTIONS, INSTANCE), 'outcome')})"
ENDINGS_BY_REASON = f"round({total(growth(metrics.QUERY_ENDINGS), 'reason')}) > 0"
FINDINGS_REFUSED = f"round({total(growth(metrics.FINDINGS_REFUSED))})"
_SUCCESS = select(metrics.EXPECTATION_SUCCESS, JOB)
EXPECTATIONS_NOT_MET = f"count({_SUCCESS} == 0) or 0 * count({_SUCCESS})"
SUCCESS_BY_EXPECTATION = f"min by (suite, expectation) ({_SUCCESS})"
VALIDATIONS_BY_OUTCOME = f"round({total(growth(metrics.VALIDATIONS), 'outcome')}) > 0"
VALIDATION_SHARE = share(
    total(growth(metrics.VALIDATION_SECONDS)),
    total(grown(select(f"{metrics.BATCH_DURATION.name}_sum", JOB), RANGE)),
)
QUARANTINED_BY_FATE = f"round({total(growth(metrics.QUARANTINED), 'fate')}) > 0"
RECORDS_BY_FATE = rate(metrics.FEED_RECORDS, "fate", of=FEEDER)
SHED_BYTES = rate(metrics.FEED_SHED_BYTES, of=FEEDER)


def quantile_of(fraction: float, metric: Metric) -> str:
    """A quantile of a histogram at each step."""
    return quantile(fraction, select(f"{metric.name}_bucket", JOB), RATE)
