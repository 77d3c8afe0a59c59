"""The queries of the dashboards, except those on the fleet (`fleet_queries`).

`$job`, `$rule`, `$software`, `$cluster` and `$owner` are variables of the dashboards, `$__range` and
`$__rate_interval` Grafana's. A query that may be empty on a healthy system is 0 while kipwatch is scraped,
and empty only while it is not: a zero must never stand for "blind".

A series of findings begins with its first offence. It keeps its value until the application starts anew, or
until its software has lost its label values for an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboards.alert import STALLED_AFTER, Severity, Watches
from dashboards.links import with_subject
from dashboards.monitor_alerts import WATCHDOG
from dashboards.promql import (
    BRIDGED,
    DECIDED,
    counted,
    findings,
    grown,
    level,
    none_of,
    one_of,
    part,
    quantile,
    role,
    seconds_of,
    select,
    share,
    stepped,
    total,
    verdict,
)
from dashboards.recordings import COULD_BE_BETTER, LOST, RULE_STATE, UNDECODABLE, slow_share
from dashboards.recordings import OFFENCES as OFFENCES_OF_5_MINUTES
from expectations.judging.outcome import SUPPRESSED
from expectations.rules.base.rule import Level, Role, Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.labels import UNKNOWN

JOB = 'job=~"$job"'
RULE = 'rule=~"$rule"'
INSTANCE = 'instance=~"$instance"'
SOFTWARE = 'client_software_name=~"$software"'
CLUSTER = 'cluster=~"$cluster"'
ALSO_NONE = ".*"
"""Matches all values of a label, and series of earlier versions that lack the label."""
OWNER = 'owner=~"$owner"'
WHOSE = f"{SOFTWARE}, {CLUSTER}, {OWNER}"
"""Chooses whose offences are shown. Only findings have all of these labels."""
FEEDER = f"{JOB}, {INSTANCE}"
RANGE, RATE = "$__range", "$__rate_interval"
BY_SOFTWARE = metrics.SOFTWARE
INTERVAL = "$__interval"
MILLISECONDS = 1000
"""Grafana's dates are in milliseconds."""
NOW = "5m"
"""A rule is violated now if it was violated within this time before the end of the range."""
STEP = "1m"
"""The resolution of an offence's time within the range, and the narrowest bar of a graph."""
NO_WATCHDOG = none_of("alertname", [WATCHDOG])
BY_OFFENCE = ("rule", "level", *BY_SOFTWARE)
RANKS = {str(Level.VIOLATION): 4, str(Level.IMPROVEMENT): 3, str(Level.INFORMATION): 2, SUPPRESSED: 1}
"""A number for each level of a finding, by which tables sort. Names would sort in another order."""
LOOK_BACK, COARSE_STEP = "7d", "5m"
"""How far before the range to look for an offence, and the resolution of its time there."""


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
    """0 in place of an empty result while the application is scraped."""
    return f"{expression} or 0 * {total(select(metrics.RULE_CHECKS, JOB))}"


def checks(*matchers: str) -> str:
    """Checks over the dashboard's range, by rule and verdict."""
    return growth(metrics.RULE_CHECKS, RULE, *matchers)


def checks_by_rule(*verdicts: Verdict) -> str:
    """Checks with these verdicts over the range, by rule."""
    return counted(checks(verdict(*verdicts)), "rule")


@dataclass(frozen=True, slots=True)
class Source:
    """A source of figures.

    `delivers` is empty while the source does not deliver; `silent_since` is then when it last did, in
    milliseconds.
    """

    delivers: str
    silent_since: str


_BATCH = select(metrics.LAST_BATCH_TIMESTAMP, JOB)
_LATEST_BATCH = f"max(max_over_time({_BATCH}[{LOOK_BACK}]) > 0)"
_JUDGES = f"(max({_BATCH}) > time() - {STALLED_AFTER})"
JUDGING = Source(_JUDGES, f"{MILLISECONDS} * {_LATEST_BATCH} unless on () {_JUDGES}")
"""The query, which delivers while it finishes batches: a query that stalls is scraped as well as ever."""
_CAPTURED = select(metrics.CAPTURE_PACKETS, JOB)
_SCRAPED = f"max_over_time(timestamp({_CAPTURED})[1d:{STEP}])"
CAPTURING = Source(f"count({_CAPTURED})", f"{MILLISECONDS} * max({_SCRAPED}) unless on () count({_CAPTURED})")
"""The feeders, which deliver while one of them is scraped."""
_SEEN = select(f"{metrics.DETECTION_DELAY.name}_count", JOB)
_GREW = f"timestamp(increase({_SEEN}[2m]) > 0)"
_LATEST_SEEN = f"max(max_over_time({_GREW}[1d:{STEP}])) - {seconds_of(STEP)}"
"""When the latest frame was judged, to the minute: growth is seen for up to two minutes after it."""


def _seeing(window: str) -> Source:
    """The query while frames came within a window: without a feeder its batches are empty."""
    sees = f"({_JUDGES} and on () {total(grown(select(metrics.FRAMES, JOB), window))} > 0)"
    # Rounded to the minute, it may be later than the latest batch, after which nothing was seen.
    latest = f"clamp_max({_LATEST_SEEN}, scalar({_LATEST_BATCH})) or {_LATEST_BATCH}"
    return Source(sees, f"{MILLISECONDS} * ({latest}) unless on () {sees}")


SEEING, SEEN = _seeing(NOW), _seeing(RANGE)
"""Of what holds now, and of what was counted over the range: without frames a zero says nothing."""
SECONDS_SINCE_BATCH = f"time() - {_LATEST_BATCH}"

CHECKS = counted(checks())
RULES = f"count({total(select(metrics.RULE_CHECKS, JOB, RULE), 'rule')})"
RULES_EXERCISED = or_zero(f"count({checks_by_rule(*DECIDED)} > 0)")
UNDECIDED_SHARE = share(total(checks(verdict(Verdict.UNDECIDED))), total(checks()))
UNDECIDED_BY_REASON = f"{counted(growth(metrics.UNDECIDED_CHECKS, RULE), 'rule', 'reason')} > 0"
STATE_BY_RULE = f"max by (rule) ({select(RULE_STATE, JOB, RULE)})"
_WORST_BY_RULE = f"max by (rule) (max_over_time({select(RULE_STATE, JOB, RULE)}[{RANGE}] @ end()))"
MOST_BARS = 24
"""How many rules a timeline shows. The names of more would be printed over one another."""
STATE_OF_OFFENDED = f"{STATE_BY_RULE} and on (rule) topk({MOST_BARS}, {_WORST_BY_RULE} >= {COULD_BE_BETTER})"
STATE_OF_OTHERS = f"{STATE_BY_RULE} and on (rule) {_WORST_BY_RULE} < {COULD_BE_BETTER}"
CHECK_RATE_BY_VERDICT = total(f"rate({select(metrics.RULE_CHECKS, JOB, RULE)}[{RATE}])", "verdict")


SEVERITIES = {3: Severity.CRITICAL, 2: Severity.WARNING, 1: Severity.INFO}
"""A number for each severity of an alert, by which tables sort."""
ALERT_LABELS = ("alertname", "severity", "rule", "cluster", "owner", "client_software_name", "instance")
FEW = 3
"""How many alerts are marked at a moment, and offenders named in a figure. A storm has dozens of them, and
nobody could read the graph below their marks."""


def firing(watched: Sequence[Watches], *matchers: str) -> str:
    """Firing alerts on what is watched, of the chosen jobs and without a job."""
    watches = one_of("watches", watched)
    return select("ALERTS", 'alertstate="firing"', watches, 'job=~"$job|"', NO_WATCHDOG, *matchers)


def alerts_begin(watched: Sequence[Watches]) -> str:
    """Alerts at the step at which they begin to fire, a few at most."""
    fires = firing(watched)
    begun = f"{fires} unless last_over_time({fires}[{BRIDGED}] offset {STEP})"
    return f"topk({FEW}, max by ({', '.join(ALERT_LABELS)}) ({begun}))"


def alerts_end(watched: Sequence[Watches]) -> str:
    """Alerts at the first step at which they do not fire any more, a few at most."""
    fires = firing(watched)
    return f"topk({FEW}, max by ({', '.join(ALERT_LABELS)}) ({fires} offset {STEP} unless {fires}))"


def restarts(counter: Metric) -> str:
    """Where a counter began again in the minute before."""
    counted = select(counter, JOB)
    return f"max by (job, instance) ({counted} < last_over_time({counted}[{BRIDGED}] offset {STEP}))"


RANGES_CHANGED = f"{total(stepped(select(metrics.RANGES_CHANGES, JOB), STEP), 'listener')} > 0"
_SINCE = select("ALERTS_FOR_STATE", 'job=~"$job|"')
_FIRING = firing(list(Watches))
WHO = "who"
"""The label of an alert's row that says whose it is, and where, such as "sarama of payments in prod"."""


def _with_who(expression: str) -> str:
    """Add to each alert who and where it is, of what is known: a column of each would cut all of them."""
    told = f'label_join({expression}, "{WHO}", "", "client_software_name")'
    for word, label in (("of", "owner"), ("in", "cluster"), ("at", "instance")):
        told = f'label_join({told}, "{WHO}", " {word} ", "{WHO}", "{label}")'
        told = f'label_replace({told}, "{WHO}", "$1", "{WHO}", "(.*) {word} (?:{UNKNOWN})?")'
    return f'label_replace({told}, "{WHO}", "$1", "{WHO}", " (.+)")'


FIRING = _with_who(with_subject(f"count by ({', '.join(ALERT_LABELS)}) ({_FIRING})"))
"""How many alerts are alike, their subject, and who. A table joins queries by the labels that all have."""
FIRING_SEVERITY = " or ".join(
    f"{rank} * group by ({', '.join(ALERT_LABELS)}) ({firing(list(Watches), one_of('severity', [name]))})"
    for rank, name in SEVERITIES.items()
)
FIRING_SINCE = (
    f"{MILLISECONDS} * min by ({', '.join(ALERT_LABELS)}) ({_SINCE} and ignoring (alertstate) {_FIRING})"
)


def open_now(*by: str) -> str:
    """Connections that are open at each step, while frames come: a feeder that was killed ends none."""
    return f"{total(select(metrics.CONNECTIONS, JOB, SOFTWARE), *by)} and on () {SEEING.delivers}"


OPEN_BY_SOFTWARE, OPEN_BY_LISTENER = open_now(*BY_SOFTWARE), open_now("listener")


def most_open(*matchers: str) -> str:
    """The highest number of open connections within the range, by all labels."""
    return f"max_over_time({select(metrics.CONNECTIONS, JOB, *matchers)}[{RANGE}])"


MOST_OPEN_BY_SOFTWARE = total(most_open(SOFTWARE), *BY_SOFTWARE)
NAMELESS_SHARE = part(total(most_open(one_of("client_software_name", [UNKNOWN]))), total(most_open()))


LAG = total(f"{select(metrics.TOPIC_LAG, JOB)} >= 0")
STATE_BYTES = gauge(metrics.STATE_BYTES)
OPEN_CONNECTIONS = gauge(metrics.OPEN_CONNECTIONS)
WAITING_BYTES = gauge(metrics.FEED_WAITING_BYTES, FEEDER)
DROPPED_PACKETS = counted(growth(metrics.CAPTURE_DROPPED_PACKETS, INSTANCE))
LABEL_OVERFLOW = counted(growth(metrics.LABEL_OVERFLOW))
UNDECODABLE_SHARE = or_zero(f"max({select(UNDECODABLE, JOB)})")
UNDECODABLE_BY_REASON = f"{counted(growth(metrics.UNDECODABLE_FRAMES), 'reason')} > 0"
LOST_SHARE = f"max({select(LOST, JOB)})"
LOST_BY_FEEDER = f"max by (instance) ({select(LOST, FEEDER)})"
SLOW_SHARE = or_zero(slow_share(JOB, window=RANGE))
BUILDS = f"max by (job, version, kafka) ({select(metrics.BUILD_INFO, JOB)})"
WINDOWS_BY = rate(metrics.WINDOWS, "by")
AUTOMATON_CLEARS = counted(growth(metrics.AUTOMATON_CLEARS))
FRAMES_BY_KIND = rate(metrics.FRAMES, "kind")
FRAMES_BY_API = f"topk(10, {rate(metrics.FRAMES, 'api')})"
BYTES_BY_FATE = rate(metrics.CAPTURE_BYTES, "fate", of=FEEDER)
BYTES_BY_PORT = rate(metrics.CAPTURE_PORT_BYTES, "port", "fate", of=FEEDER)
PACKETS_BY_FATE = rate(metrics.CAPTURE_PACKETS, "fate", of=FEEDER)
OPAQUE_CONNECTIONS = counted(growth(metrics.CAPTURE_OPAQUE, INSTANCE))
EVICTED_CONNECTIONS = counted(growth(metrics.CAPTURE_EVICTED, INSTANCE), "state")
CONTRADICTIONS = counted(growth(metrics.CAPTURE_CONTRADICTIONS, INSTANCE), "kind")
TLS_CONNECTIONS_BY_OUTCOME = counted(growth(metrics.TLS_CONNECTIONS, INSTANCE), "outcome")
PLACED_CONNECTIONS = counted(growth(metrics.PLACED_CONNECTIONS, INSTANCE), "outcome")
KUBERNETES_WATCH_AGE = f"max({select(metrics.KUBERNETES_WATCH_AGE, FEEDER)})"
KUBERNETES_ERRORS = counted(growth(metrics.KUBERNETES_ERRORS, INSTANCE))
KUBERNETES_LEFT_OUT = counted(growth(metrics.KUBERNETES_LEFT_OUT, INSTANCE))
ENDINGS_BY_REASON = f"{counted(growth(metrics.QUERY_ENDINGS), 'reason')} > 0"
FINDINGS_REFUSED = counted(growth(metrics.FINDINGS_REFUSED))
PACKS_REFUSED = f"max({select(metrics.PACKS_REFUSED, JOB)})"
_SUCCESS = select(metrics.EXPECTATION_SUCCESS, JOB)
EXPECTATIONS_NOT_MET = f"count({_SUCCESS} == 0) or 0 * count({_SUCCESS})"
_POLICIES = f"on (job, suite, expectation) group_left (says) {select(metrics.POLICY_INFO, JOB)}"
SUCCESS_BY_EXPECTATION = (
    f"min by (suite, expectation, says) ({_SUCCESS} * {_POLICIES}) "
    f"or on (suite, expectation) min by (suite, expectation) ({_SUCCESS})"
)
VALIDATIONS_BY_OUTCOME = f"{counted(growth(metrics.VALIDATIONS), 'outcome')} > 0"
VALIDATION_SHARE = share(
    total(growth(metrics.VALIDATION_SECONDS)),
    total(f"increase({select(f'{metrics.BATCH_DURATION.name}_sum', JOB)}[{RANGE}])"),
)
QUARANTINED_BY_FATE = f"{counted(growth(metrics.QUARANTINED), 'fate')} > 0"
RECORDS_BY_FATE = rate(metrics.FEED_RECORDS, "fate", of=FEEDER)
SHED_BYTES = rate(metrics.FEED_SHED_BYTES, of=FEEDER)


def percentiles(metric: Metric) -> dict[str, str]:
    """The median and the 99th percentile of a histogram at each step, by name."""
    buckets = select(f"{metric.name}_bucket", JOB)
    return {name: quantile(fraction, buckets, RATE) for name, fraction in (("p50", 0.5), ("p99", 0.99))}


def offences(*matchers: str) -> str:
    """Offences over the dashboard's range, by all labels of findings."""
    return grown(findings(JOB, RULE, WHOSE, *matchers), RANGE)


def offences_by(*by: str) -> str:
    """Offences over the range, summed by some labels, without zeros."""
    return f"{counted(offences(), *by)} > 0"


def gravest_first(offences_of: Callable[[str], str]) -> str:
    """Sum offences by level, without zeros. Prometheus answers in the order in which levels are joined."""
    return " or ".join(f"{counted(offences_of(one_of('level', [name])), 'level')} > 0" for name in RANKS)


def violated(*by: str) -> str:
    """Offences against what a KIP demands, within the five minutes before."""
    recorded = select(OFFENCES_OF_5_MINUTES, JOB, RULE, WHOSE, level(Level.VIOLATION))
    return f"{total(recorded, *by)} > 0"


def client_offences(of: Level, *by: str) -> str:
    """Offences of clients at a level over the range, summed by some labels."""
    return f"{counted(offences(role(Role.CLIENT), level(of)), *by)} > 0"


def clients_of_owners(of: Level) -> str:
    """How many versions of client software offended at a level, by owner."""
    return f"count by (owner) ({client_offences(of, 'owner', *BY_SOFTWARE)})"


def offending_clients(of: Level) -> str:
    """How many versions of client software offended at a level, over the range."""
    return or_zero(f"count({client_offences(of, *BY_SOFTWARE)})")


def offences_in_steps(*by: str) -> str:
    """Offences within each step of a graph, summed by some labels, without zeros."""
    return f"{total(stepped(findings(JOB, RULE, WHOSE), INTERVAL), *by)} > 0"


def gravest_level(*by: str) -> str:
    """The gravest level of the offences over the range, as a number, by some labels."""
    counts = {number: total(offences(one_of("level", [name])), *by) for name, number in RANKS.items()}
    return " or ".join(f"{number} * (round({counted}) > 0) ^ 0" for number, counted in counts.items())


def _moments(step: str, *matchers: str) -> str:
    """The time of the evaluation, for each series of findings that grew in the step before."""
    found = findings(JOB, RULE, WHOSE, *matchers)
    return f"timestamp({stepped(found, step)} > 0)"


def _last_offence(*matchers: str) -> str:
    """The time of the last offence: to the minute within the range, else as far back as LOOK_BACK."""
    in_range = f"max(max_over_time({_moments(STEP, *matchers)}[{RANGE}:{STEP}]))"
    before = f"max(max_over_time({_moments(COARSE_STEP, *matchers)}[{LOOK_BACK}:{COARSE_STEP}]))"
    return f"({in_range} or {before})"


def _first_offence(*by: str) -> str:
    """The time of the first offence, in milliseconds and to the minute; 0 if it was before the range."""
    found, labels = findings(JOB, RULE, WHOSE), f"by ({', '.join(by)}) " if by else ""
    before = f"0 * max {labels}(last_over_time({found}[{LOOK_BACK}:{COARSE_STEP}] offset {RANGE}))"
    in_range = f"min {labels}(min_over_time({_moments(STEP)}[{RANGE}:{STEP}]))"
    return f"({before} or {MILLISECONDS} * {in_range})"


def first_seen_by(*by: str) -> str:
    """The time of the first offence as in FIRST_SEEN, of all that offended in the range."""
    return f"{_first_offence(*by)} and {offences_by(*by)}"


def last_seen_by(*by: str) -> str:
    """The time of the last offence within the range, in milliseconds and to the minute."""
    last = f"max by ({', '.join(by)}) (max_over_time({_moments(STEP)}[{RANGE}:{STEP}]))"
    return f"{MILLISECONDS} * {last} and {offences_by(*by)}"


OFFENCES_BY_LEVEL = gravest_first(offences)
RULES_VIOLATED_NOW = or_zero(f"count({violated('rule')})")
VIOLATED_NOW = f"topk({FEW}, round({violated('rule', 'client_software_name')}))"
VIOLATIONS = or_zero(counted(offences(level(Level.VIOLATION))))
OFFENCES = or_zero(counted(offences()))
OFFENDING_SOFTWARE = or_zero(f"count({total(offences(), *BY_SOFTWARE)} > 0)")
SEEN_SOFTWARE = or_zero(
    f"count({total(most_open(SOFTWARE), *BY_SOFTWARE)} or {total(offences(), *BY_SOFTWARE)} > 0)"
)
"""How many versions of client software were connected or offended, over the range."""
NONE_KNOWN = int(seconds_of(LOOK_BACK))
"""Seconds since the last violation if there was none as far back as is looked."""
SINCE_VIOLATION = f"time() - {_last_offence(level(Level.VIOLATION))} or vector({NONE_KNOWN})"
FIRST_SEEN = _first_offence()
LAST_SEEN = f"{MILLISECONDS} * {_last_offence()}"
