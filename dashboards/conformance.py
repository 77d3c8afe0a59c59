"""The Conformance dashboard: is the fleet conformant now, since when, and how much of it was looked at.

A zero is shown beside how often the rule could have been broken, so that "no violations" and "blind"
never look alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DynamicConfigValue

from dashboards import panels, queries, variables
from dashboards.alerts import STALLED_AFTER
from dashboards.panels import AMBER, BLUE, GREEN, GREY, RED
from expectations.rule import Rule, Verdict
from streaming import metrics

UID = "kipwatch-conformance"


STATES = {
    queries.NEVER_EXERCISED: ("never exercised", GREY),
    queries.ONLY_UNDECIDED: ("only undecided", BLUE),
    queries.CONFORMS: ("conforms", GREEN),
    queries.COULD_BE_BETTER: ("breaks a recommendation", AMBER),
    queries.VIOLATES: ("violates", RED),
}


def dashboard(rules: Iterable[Rule]) -> builder.Dashboard:
    """The dashboard; the rules tell which offences are violations and which only recommendations."""
    made = (
        builder.Dashboard("Kafka protocol conformance")
        .uid(UID)
        .description("Whether clients and brokers keep the rules of KIP-1313, 1082, 511, 35 and 1242.")
        .tags([variables.TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(variables.links())
        .variables(variables.variables(rules))
    )
    identifiers = itertools.count(1)
    for title, row in _rows().items():
        made.with_row(builder.Row(title).id(next(identifiers)))
        for panel in row:
            made.with_panel(panel.id(next(identifiers)))
    return made


def _rows() -> dict[str, list[panels.Panel]]:
    return {
        "Is the fleet conformant?": [
            _violations(),
            _rules_exercised(),
            _checks(),
            _undecided_share(),
            _states(),
        ],
        "Who, and how much was looked at": [_findings(), _coverage(), _connections()],
        "The monitor itself": [_since_batch(), _lag(), _dropped(), _undecodable(), _delay(), _bytes()],
    }


def _violations() -> panels.Panel:
    return panels.stat_panel(
        "Violations",
        "Offences against what a KIP demands, over the range. Recommendations are not among them. "
        "A zero is worth as much as the rules exercised beside it.",
        {"violations": queries.VIOLATIONS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=6,
    )


def _rules_exercised() -> panels.Panel:
    return panels.stat_panel(
        "Rules exercised",
        "How many of the rules were decided at least once in the range, and how many there are. "
        "Of a rule that was never exercised nothing is known.",
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
        "joined in mid-stream, bytes cut away.",
        {"undecided share": queries.UNDECIDED_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (0.1, AMBER), (0.5, RED)],
        span=6,
        empty="no checks",
    )


def _states() -> panels.Panel:
    return panels.timeline_panel(
        "Rules",
        "The gravest thing that happened to each rule in the five minutes before. Grey says that the rule "
        f"was never exercised. Drawn from the recording rule {queries.RULE_STATE}.",
        queries.STATE_BY_RULE,
        "{{rule}}",
        STATES,
    )


def _findings() -> panels.Panel:
    return panels.table_panel(
        "Offences by rule and client software",
        "What was found over the range, of every level.",
        {"Offences": queries.FINDINGS_BY_SOFTWARE},
        span=12,
        empty="no offence found: see the coverage beside",
    ).override_by_name("rule", _link_to_rule())


def _coverage() -> panels.Panel:
    return panels.table_panel(
        "Coverage",
        "How often each rule was checked over the range, and how it ended.",
        {
            "Exercised": queries.DECIDED_BY_RULE,
            "Conforms": queries.checks_by_rule(Verdict.CONFORMS),
            "Violates": queries.checks_by_rule(Verdict.VIOLATES),
            "Undecided": queries.checks_by_rule(Verdict.UNDECIDED),
        },
        span=12,
        empty="no data",
    ).override_by_name("Exercised", _never_exercised())


def _connections() -> panels.Panel:
    return panels.graph_panel(
        "Open connections by client software",
        "What clients call themselves in ApiVersions (KIP-511); unknown where they do not.",
        {"{{client_software_name}} {{client_software_version}}": queries.CONNECTIONS_BY_SOFTWARE},
        unit=panels.COUNT,
        span=24,
        empty="no client is connected",
    )


def _since_batch() -> panels.Panel:
    return panels.stat_panel(
        "Since the last batch",
        "While no batch is finished, nothing is judged.",
        {"seconds": queries.SECONDS_SINCE_BATCH},
        unit=panels.SECONDS,
        steps=[(0, GREEN), (30, AMBER), (STALLED_AFTER, RED)],
        span=6,
    )


def _lag() -> panels.Panel:
    return panels.stat_panel(
        "Records waiting",
        "Records of the frames topic that were not judged yet.",
        {"lag": queries.LAG},
        unit=panels.COUNT,
        steps=[(0, GREEN), (100_000, AMBER), (1_000_000, RED)],
        span=6,
    )


def _dropped() -> panels.Panel:
    return panels.stat_panel(
        "Packets dropped",
        "Packets that the kernel dropped because the feeder did not keep up; what follows is undecided.",
        {"dropped packets": queries.DROPPED_PACKETS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
        empty="no feeder is scraped",
    )


def _undecodable() -> panels.Panel:
    return panels.stat_panel(
        "Undecodable frames",
        "Complete frames that no known schema could read, over the range.",
        {"undecodable frames": queries.UNDECODABLE_FRAMES},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
    )


def _delay() -> panels.Panel:
    return panels.graph_panel(
        "Delay from capture to judgement",
        "Half of the frames were judged faster than p50, all but one in a hundred faster than p99.",
        {
            "p50": queries.quantile(0.5, metrics.DETECTION_DELAY),
            "p99": queries.quantile(0.99, metrics.DETECTION_DELAY),
        },
        unit=panels.SECONDS,
        span=12,
        empty="nothing was judged",
    )


def _bytes() -> panels.Panel:
    return panels.graph_panel(
        "Captured bytes by fate",
        "TCP payload that was framed, skipped for a reason, or lost, that is, passed without being captured.",
        {"{{fate}}": queries.BYTES_BY_FATE},
        unit=panels.BYTES_PER_SECOND,
        span=12,
        empty="no feeder is scraped",
    )


def _link_to_rule() -> list[DynamicConfigValue]:
    link = {
        "title": "Only this rule",
        "url": f"/d/{UID}?${{__url_time_range}}&${{datasource:queryparam}}&var-rule=${{__value.text}}",
    }
    return [DynamicConfigValue(id_val="links", value=[link])]


def _never_exercised() -> list[DynamicConfigValue]:
    never = panels.mapping({queries.NEVER_EXERCISED: STATES[queries.NEVER_EXERCISED]})
    return [
        DynamicConfigValue(id_val="mappings", value=[never]),
        DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        DynamicConfigValue(id_val="thresholds", value=panels.thresholds([(0, GREY), (1, BLUE)]).build()),
    ]
