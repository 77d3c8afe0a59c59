"""The recording rules: expressions that alerts and dashboards share, computed once.

Their names are `level:metric:operation`. The level names the labels of the series beside `job`, which is kept
so that several installations may share one Prometheus.
"""

from __future__ import annotations

from typing import Any

from dashboards.alert import BURN_RATES, DELAY_SECONDS
from dashboards.promql import (
    DECIDED,
    findings,
    grown,
    level,
    none_of,
    one_of,
    seconds_of,
    select,
    share,
    total,
    verdict,
)
from decoders.wire.ledger import SkipReason
from expectations.rules.base.rule import Level, Verdict
from streaming.judging.tally import REMOVED_VERSION
from streaming.metrics import definitions as metrics

SOFTWARE = metrics.SOFTWARE
OFFENCES = "rule_software:kipwatch_findings:increase5m"
"""Offences of five minutes by rule, level, role, client software, cluster, listener and owner.

The level is that of each judgement, since one offence may be more severe than another; checks know only the
rule.
"""
RULE_STATE = "rule:kipwatch_rule_checks:state5m"
"""The most severe state of each rule in five minutes, one of those below."""
EXERCISED = "rule:kipwatch_rule_checks:exercised1h"
"""1 where a rule was decided within an hour, else 0."""
UNDECODABLE = "job:kipwatch_undecodable_frames:share15m"
"""The share of frames that could not be decoded, apart from those of versions that a release has removed."""
LOST = "instance:kipwatch_capture_bytes_lost:share5m"
"""The share of bytes that a feeder did not capture, or captured and did not publish."""

NOT_EXERCISED, ONLY_UNDECIDED, CONFORMS, COULD_BE_BETTER, VIOLATES = range(5)


def slow(window: str) -> str:
    """The recorded share of frames that were judged too late, within a window."""
    return f"job:kipwatch_detection_delay_slow:share{window}"


def groups() -> list[dict[str, Any]]:
    """The groups of recording rules. Within a group Prometheus evaluates in order."""
    states = {
        OFFENCES: _offences(),
        RULE_STATE: _state(),
        EXERCISED: _exercised(),
        UNDECODABLE: _undecodable(),
        LOST: _lost(),
    }
    windows = sorted(
        {window for short, long, _ in BURN_RATES for window in (short, long)},
        key=lambda window: int(seconds_of(window)),
    )
    delays = {slow(window): slow_share(window=window, by=("job",)) for window in windows}
    return [_group("kipwatch-states", states), _group("kipwatch-delay", delays)]


def _group(name: str, recordings: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "rules": [{"record": record, "expr": expr} for record, expr in recordings.items()]}


def _offences() -> str:
    return total(grown(findings(), "5m"), "job", "rule", "level", "role", *SOFTWARE, *metrics.PLACE, "owner")


def _state() -> str:
    """Undecided checks weigh less than decided ones, since each connection joined midway causes some."""
    violations = f"{total(select(OFFENCES, level(Level.VIOLATION)), 'job', 'rule')} > bool 0"
    happened = (
        f"{VIOLATES} * ({violations})",
        _happened(COULD_BE_BETTER, Verdict.VIOLATES),
        _happened(CONFORMS, Verdict.CONFORMS),
        _happened(ONLY_UNDECIDED, Verdict.UNDECIDED),
    )
    return f"max by (job, rule) ({' or '.join(happened)})"


def _happened(state: int, of: Verdict) -> str:
    """`state` where checks with that verdict were made within five minutes, else 0."""
    made = grown(select(metrics.RULE_CHECKS, verdict(of)), "5m")
    return f"{state} * ({total(made, 'job', 'rule', 'verdict')} > bool 0)"


def _exercised() -> str:
    decided = grown(select(metrics.RULE_CHECKS, verdict(*DECIDED)), "1h")
    return f"{total(decided, 'job', 'rule')} > bool 0"


def _undecodable() -> str:
    undecodable = select(metrics.UNDECODABLE_FRAMES, none_of("reason", [REMOVED_VERSION]))
    return share(total(grown(undecodable, "15m"), "job"), total(grown(metrics.FRAMES.name, "15m"), "job"))


_MISSED = ["lost", f"skipped-{SkipReason.GIVEN_UP}"]
"""Fates of bytes of Kafka that could have been judged."""


def _lost() -> str:
    feeder = ("job", "instance")
    not_captured = total(f"rate({select(metrics.CAPTURE_BYTES, one_of('fate', _MISSED))}[5m])", *feeder)
    not_published = total(f"rate({metrics.FEED_SHED_BYTES.name}[5m])", *feeder)
    passed = total(f"rate({metrics.CAPTURE_BYTES.name}[5m])", *feeder)
    return share(f"({not_captured} + {not_published})", passed)


def slow_share(*matchers: str, window: str, by: tuple[str, ...] = ()) -> str:
    """The share of frames that were judged later than the objective allows, within a window."""
    name = metrics.DETECTION_DELAY.name
    # prometheus_client writes the bounds of buckets as floating-point numbers.
    fast = select(f"{name}_bucket", *matchers, one_of("le", [str(float(DELAY_SECONDS))]))
    judged = select(f"{name}_count", *matchers)
    return f"1 - {share(total(f'rate({fast}[{window}])', *by), total(f'rate({judged}[{window}])', *by))}"
