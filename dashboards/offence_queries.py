"""What the dashboards ask Prometheus about offences: how many, how grave, since when.

A series of findings is born with its first offence and keeps its value until the application is started anew,
or until its software has lost its label values for an hour.
"""

from __future__ import annotations

from dashboards.promql import findings, grown, level, one_of, role, select, stepped, total
from dashboards.queries import (
    INTERVAL,
    JOB,
    MILLISECONDS,
    RANGE,
    RULE,
    SOFTWARE,
    STEP,
    most_open,
    or_zero,
)
from dashboards.recordings import OFFENCES as OFFENCES_OF_5_MINUTES
from expectations.judging.outcome import SUPPRESSED
from expectations.rules.base.rule import Level, Role
from streaming.metrics import definitions as metrics

BY_SOFTWARE = metrics.SOFTWARE
BY_OFFENCE = ("rule", "level", *BY_SOFTWARE)
RANKS = {str(Level.VIOLATION): 4, str(Level.IMPROVEMENT): 3, str(Level.INFORMATION): 2, SUPPRESSED: 1}
"""A number for each level of a finding, by which tables sort; by name "information" would come too early."""
LOOK_BACK, COARSE_STEP = "7d", "5m"
"""How far before the range an offence is looked for, and how exactly its time is told there."""


def offences(*matchers: str) -> str:
    """Offences over the dashboard's range, by all labels that findings have."""
    return grown(findings(JOB, RULE, SOFTWARE, *matchers), RANGE)


def offences_by(*by: str) -> str:
    """Offences over the range, summed by some labels; those without any are left out."""
    return f"round({total(offences(), *by)}) > 0"


def violated(*by: str) -> str:
    """Offences against what a KIP demands, within the five minutes before."""
    recorded = select(OFFENCES_OF_5_MINUTES, JOB, RULE, SOFTWARE, level(Level.VIOLATION))
    return f"{total(recorded, *by)} > 0"


def client_offences(of: Level, *by: str) -> str:
    """Offences of clients at a level over the range, summed by some labels."""
    return f"round({total(offences(role(Role.CLIENT), level(of)), *by)}) > 0"


def offending_clients(of: Level) -> str:
    """How many versions of client software offended at a level, over the range."""
    return or_zero(f"count({client_offences(of, *BY_SOFTWARE)})")


def in_steps(*by: str) -> str:
    """Offences within each step of a graph, summed by some labels; nothing in steps without any."""
    return f"{total(stepped(findings(JOB, RULE, SOFTWARE), INTERVAL), *by)} > 0"


def rank(*by: str) -> str:
    """The gravest level of the offences over the range, as a number, by some labels."""
    counts = {number: total(offences(one_of("level", [name])), *by) for name, number in RANKS.items()}
    return " or ".join(f"{number} * (round({counted}) > 0) ^ 0" for number, counted in counts.items())


def _moments(step: str, *matchers: str) -> str:
    """At each evaluation its time, for each series of findings that grew in the step before."""
    found = findings(JOB, RULE, SOFTWARE, *matchers)
    return f"timestamp({stepped(found, step)} > 0)"


def _last_offence(*matchers: str) -> str:
    """When there was an offence last: in the range to the minute, else as far back as LOOK_BACK."""
    in_range = f"max(max_over_time({_moments(STEP, *matchers)}[{RANGE}:{STEP}]))"
    before = f"max(max_over_time({_moments(COARSE_STEP, *matchers)}[{LOOK_BACK}:{COARSE_STEP}]))"
    return f"({in_range} or {before})"


def _first_offence(*by: str) -> str:
    """When there was an offence first, in milliseconds and to the minute; 0 if before the range."""
    found, labels = findings(JOB, RULE, SOFTWARE), f"by ({', '.join(by)}) " if by else ""
    before = f"0 * max {labels}(last_over_time({found}[{LOOK_BACK}:{COARSE_STEP}] offset {RANGE}))"
    in_range = f"min {labels}(min_over_time({_moments(STEP)}[{RANGE}:{STEP}]))"
    return f"({before} or {MILLISECONDS} * {in_range})"


def first_seen_by(*by: str) -> str:
    """When each that offended in the range did so first: as FIRST_SEEN."""
    return f"{_first_offence(*by)} and {offences_by(*by)}"


def last_seen_by(*by: str) -> str:
    """When each last offended within the range, in milliseconds and to the minute."""
    last = f"max by ({', '.join(by)}) (max_over_time({_moments(STEP)}[{RANGE}:{STEP}]))"
    return f"{MILLISECONDS} * {last} and {offences_by(*by)}"


RULES_VIOLATED_NOW = or_zero(f"count({violated('rule')})")
VIOLATED_NOW = f"topk(6, ceil({violated('rule', *BY_SOFTWARE)}))"
VIOLATIONS = or_zero(f"round({total(offences(level(Level.VIOLATION)))})")
OFFENCES = or_zero(f"round({total(offences())})")
OFFENDING_SOFTWARE = or_zero(f"count({total(offences(), *BY_SOFTWARE)} > 0)")
SEEN_SOFTWARE = or_zero(
    f"count({total(most_open(SOFTWARE), *BY_SOFTWARE)} or {total(offences(), *BY_SOFTWARE)} > 0)"
)
"""How many versions of client software were connected or offended, over the range."""
SINCE_VIOLATION = f"time() - {_last_offence(level(Level.VIOLATION))}"
FIRST_SEEN = _first_offence()
LAST_SEEN = f"{MILLISECONDS} * {_last_offence()}"
