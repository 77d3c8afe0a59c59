"""The Conformance dashboard: is the fleet conformant, since when, and how much was checked.

A zero is shown beside how often the rule could have been broken, so that "no violations" and "blind"
never look alike.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import links, panels, queries, states
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, BLUE, GREEN, GREY, RED
from dashboards.recordings import NEVER_EXERCISED
from dashboards.thresholds import LOST_SHARE, SLOW_BATCH_AFTER, STALLED_AFTER, UNDECODABLE_SHARE
from expectations.rules.base.rule import Verdict

TIMELINE_HEIGHT = 24


def dashboard() -> builder.Dashboard:
    """Return the dashboard to open first."""
    return laid_out(
        links.CONFORMANCE,
        "Kafka protocol: conformance",
        "Whether clients and brokers obey the rules of KIP-1313, 1082, 511, 35 and 1242.",
        {
            "Is the fleet conformant?": [_violations(), _since(), _exercised(), _checks()],
            "How much was checked?": [_undecided_share(), since_batch(), undecodable_share(), lost_share()],
            "Which rules": [
                states.timeline("Rules", queries.STATE_BY_RULE, TIMELINE_HEIGHT),
                _offences(),
                _coverage(),
            ],
        },
    )


def _violations() -> panels.Panel:
    return panels.stat_panel(
        "Violations",
        "Offences against what a KIP demands, over the range; improvements are not counted. A zero means "
        "only as much as the number of rules exercised.",
        {"violations": queries.VIOLATIONS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=6,
    )


def _since() -> panels.Panel:
    return panels.stat_panel(
        "Since the last violation",
        "How long no rule was violated. Drawn from what was recorded within the range.",
        {"since": queries.SINCE_VIOLATION},
        unit=panels.SECONDS,
        steps=[(0, RED), (3600, AMBER), (86400, GREEN)],
        span=6,
        empty="none in the range",
    )


def _exercised() -> panels.Panel:
    return panels.stat_panel(
        "Rules exercised",
        "How many of the rules were decided at least once in the range, and how many there are. "
        "Nothing is known of a rule that was never exercised.",
        {"exercised": queries.RULES_EXERCISED, "of": queries.RULES},
        unit=panels.COUNT,
        steps=[(0, GREY), (1, BLUE)],
        span=6,
    )


def _checks() -> panels.Panel:
    return panels.stat_panel(
        "Checks",
        "How often a rule had the opportunity to be broken, over the range.",
        {"checks": queries.CHECKS},
        unit=panels.COUNT,
        steps=[(0, GREY), (1, BLUE)],
        span=6,
    )


def _undecided_share() -> panels.Panel:
    return panels.stat_panel(
        "Undecided checks",
        "The share of checks that depended on something not seen: a gap in the capture, a connection "
        "joined midway, bytes that were cut.",
        {"undecided share": queries.UNDECIDED_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (0.1, AMBER), (0.5, RED)],
        span=6,
        empty="no checks",
    )


def since_batch() -> panels.Panel:
    """Return the panel on the age of the last batch."""
    return panels.stat_panel(
        "Since the last batch",
        "While no batch is finished, nothing is judged.",
        {"seconds": queries.SECONDS_SINCE_BATCH},
        unit=panels.SECONDS,
        steps=[(0, GREEN), (SLOW_BATCH_AFTER, AMBER), (STALLED_AFTER, RED)],
        span=6,
        empty="no batch yet, or kipwatch is not scraped",
    )


def undecodable_share() -> panels.Panel:
    """Return the panel on frames that cannot be decoded."""
    return panels.stat_panel(
        "Undecodable frames",
        "The share of complete frames that no known schema could read, over 15 minutes. They are not judged.",
        {"undecodable share": queries.UNDECODABLE_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (UNDECODABLE_SHARE / 10, AMBER), (UNDECODABLE_SHARE, RED)],
        span=6,
        empty="kipwatch is not scraped",
    )


def lost_share() -> panels.Panel:
    """Return the panel on bytes that were missed."""
    return panels.stat_panel(
        "Bytes not captured",
        "The largest share of bytes that a feeder missed or did not publish, over 5 minutes.",
        {"lost share": queries.LOST_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (LOST_SHARE / 10, AMBER), (LOST_SHARE, RED)],
        span=6,
        empty="no feeder sees traffic",
    )


def _offences() -> panels.Panel:
    table = panels.table_panel(
        "Offences by rule and client software",
        "What was found over the range, of every level.",
        {"Offences": queries.OFFENCES_BY_RULE_AND_SOFTWARE},
        span=12,
        empty="no offence found: see the coverage beside",
    )
    table.override_by_name("rule", panels.link("This rule", links.to_rule()))
    return table.override_by_name("client_software_name", panels.link("This client", links.to_software()))


def _coverage() -> panels.Panel:
    table = panels.table_panel(
        "Coverage",
        "How often each rule was checked over the range, and how it ended.",
        {
            "Exercised": queries.checks_by_rule(Verdict.CONFORMS, Verdict.VIOLATES),
            "Conforms": queries.checks_by_rule(Verdict.CONFORMS),
            "Violates": queries.checks_by_rule(Verdict.VIOLATES),
            "Undecided": queries.checks_by_rule(Verdict.UNDECIDED),
        },
        span=12,
        empty="kipwatch is not scraped",
    )
    never = {NEVER_EXERCISED: states.STATES[NEVER_EXERCISED]}
    table.override_by_name("Exercised", panels.coloured(never, [(0, GREY), (1, BLUE)]))
    return table.override_by_name("rule", panels.link("This rule", links.to_rule()))
