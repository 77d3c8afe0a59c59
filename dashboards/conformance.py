"""The Conformance dashboard: is the fleet conformant, since when, and how much was checked.

A zero is shown beside how often the rule could have been broken, so that "no violations" and "blind"
never look alike.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import links, offence_queries, panels, queries, states, tables, variables
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, GREEN, RED
from dashboards.tables import CLIENT, FIRST, LAST, LEVEL, RULE, VERSION
from dashboards.thresholds import LOST_SHARE, SLOW_BATCH_AFTER, STALLED_AFTER, UNDECODABLE_SHARE
from expectations.rules.base.rule import Verdict

OFFENCES_HEIGHT, ALERTS_HEIGHT = 9, 6
"""With the row of figures above they fill the first screen, 900 pixels high."""
TIMELINE_HEIGHT, OTHERS_HEIGHT = 12, 36


def dashboard() -> builder.Dashboard:
    """Return the dashboard to open first."""
    return laid_out(
        links.CONFORMANCE,
        "Kafka protocol: conformance",
        "Whether clients and brokers obey the rules of KIP-1313, 1082, 511, 35 and 1242.",
        [variables.rules(), variables.software()],
        {
            "Who breaks what, since when, how bad?": [
                _now(),
                _names(),
                _since(),
                _violations(),
                _offences(),
                _alerts(),
            ],
            "When?": [_timeline()],
            "How much was checked?": [
                _exercised(),
                _checks(),
                _undecided_share(),
                since_batch(),
                undecodable_share(),
                lost_share(),
                _coverage(),
            ],
        },
        collapsed={"Rules without an offence": [_others()]},
    )


def _now() -> panels.Panel:
    return panels.stat_panel(
        "Rules violated now",
        "How many rules were violated in the five minutes before the end of the range. A zero means only as "
        "much as the number of rules exercised.",
        {"rules": offence_queries.RULES_VIOLATED_NOW},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=4,
        empty="kipwatch is not scraped",
    )


def _names() -> panels.Panel:
    return panels.names_panel(
        "Violating now",
        "The rules of the figure beside, and the client software on whose connections they were violated, "
        "with the offences of these five minutes; six at most, those with most offences.",
        offence_queries.VIOLATED_NOW,
        legend="{{rule}}: {{client_software_name}} {{client_software_version}}",
        colour=RED,
        span=12,
        empty="none",
    )


def _since() -> panels.Panel:
    return panels.stat_panel(
        "Since the last violation",
        "How long no rule was violated. To the minute if it was in the range, else to five minutes, and as "
        f"far back as {offence_queries.LOOK_BACK}.",
        {"since": offence_queries.SINCE_VIOLATION},
        unit=panels.SECONDS,
        steps=[(0, RED), (3600, AMBER), (86400, GREEN)],
        span=4,
        empty=f"none in {offence_queries.LOOK_BACK}",
    )


def _violations() -> panels.Panel:
    return panels.stat_panel(
        "Violations",
        "Offences of the level violation over the range: against what a KIP demands.",
        {"violations": offence_queries.VIOLATIONS},
        unit=panels.COUNT,
        span=4,
    )


def _offences() -> panels.Panel:
    by = offence_queries.BY_OFFENCE
    return tables.table_panel(
        "Offences",
        "What was found over the range, by client software of the connection, rule and level, and when it "
        "was found first and last.",
        {
            "Level": offence_queries.rank(*by),
            "Offences": offence_queries.offences_by(*by),
            "First": offence_queries.first_seen_by(*by),
            "Last": offence_queries.last_seen_by(*by),
        },
        [CLIENT, VERSION, RULE, LEVEL, tables.count("Offences"), FIRST, LAST],
        height=OFFENCES_HEIGHT,
        empty="no offence was found: see below how much was checked",
        sort=["Level", "Offences"],
    )


def _alerts() -> panels.Panel:
    return tables.table_panel(
        "Firing alerts",
        "Alerts about Kafka and about kipwatch itself that fire at the end of the range.",
        {"Firing": queries.FIRING},
        [
            tables.Column("alertname", "Alert", 250),
            tables.Column("severity", "Severity", 90),
            RULE,
            CLIENT,
            tables.Column("instance", "Instance", 150),
        ],
        height=ALERTS_HEIGHT,
        empty="no alert fires, if Prometheus has loaded dashboards/generated/alerts.yml",
        sort=["Severity"],
    )


def _timeline() -> panels.Panel:
    return states.timeline(
        "Rules that were broken in the range",
        queries.STATE_OF_OFFENDED,
        height=TIMELINE_HEIGHT,
        empty="no rule was broken, or Prometheus has not loaded dashboards/generated/alerts.yml",
    )


def _others() -> panels.Panel:
    return states.timeline(
        "Rules that were not broken in the range",
        queries.STATE_OF_OTHERS,
        height=OTHERS_HEIGHT,
        empty="no data: is dashboards/generated/alerts.yml loaded by Prometheus?",
    )


def _exercised() -> panels.Panel:
    return panels.stat_panel(
        "Rules exercised",
        "How many of the rules were decided at least once in the range, and how many there are. "
        "Nothing is known of a rule that was not exercised.",
        {"exercised": queries.RULES_EXERCISED, "of": queries.RULES},
        unit=panels.COUNT,
        span=4,
    )


def _checks() -> panels.Panel:
    return panels.stat_panel(
        "Checks",
        "How often a rule had the opportunity to be broken, over the range.",
        {"checks": queries.CHECKS},
        unit=panels.COUNT,
        span=4,
    )


def _undecided_share() -> panels.Panel:
    return panels.stat_panel(
        "Undecided checks",
        "The share of checks that depended on something not seen: a gap in the capture, a connection "
        "joined midway, bytes that were cut.",
        {"undecided share": queries.UNDECIDED_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (0.1, AMBER), (0.5, RED)],
        span=4,
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
        span=4,
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
        span=4,
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
        span=4,
        empty="no feeder sees traffic",
    )


def _coverage() -> panels.Panel:
    return tables.table_panel(
        "Coverage",
        "How often each rule was checked over the range, and how it ended. Violates counts offences of any "
        "level: the figures of violations above count only those against what a KIP demands.",
        {
            "Exercised": queries.checks_by_rule(Verdict.CONFORMS, Verdict.VIOLATES),
            "Conforms": queries.checks_by_rule(Verdict.CONFORMS),
            "Violates, any level": queries.checks_by_rule(Verdict.VIOLATES),
            "Undecided": queries.checks_by_rule(Verdict.UNDECIDED),
        },
        [
            RULE,
            tables.checked("Exercised"),
            tables.count("Conforms"),
            tables.count("Violates, any level", width=150),
            tables.count("Undecided"),
        ],
        height=OTHERS_HEIGHT // 2,
        empty="kipwatch is not scraped",
        sort=["Violates, any level", "Exercised"],
    )
