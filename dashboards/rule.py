"""The Rule dashboard: one rule across the fleet, or all of them: who breaks it, since when, how often."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import links, panels, queries, states
from dashboards.layout import dashboard as laid_out
from dashboards.links import Places
from dashboards.panels import AMBER, BLUE, GREEN, GREY

TIMELINE_HEIGHT = 8
NONE_FOUND = "no offence in the range; the checks show whether there could have been one"


def dashboard(places: Places) -> builder.Dashboard:
    """Return the dashboard that alerts link to."""
    return laid_out(
        links.RULE,
        "Kafka protocol: rule",
        "One rule across the fleet: choose it above. The last table names its page in the runbook.",
        {
            "Now": [_offences(), _software(), _first_seen(), _last_seen()],
            "Over time": [
                states.timeline("State", queries.STATE_BY_RULE, TIMELINE_HEIGHT),
                _trend(),
                _checks(),
            ],
            "Who and what": [_by_software(), _pages(places)],
        },
    )


def _offences() -> panels.Panel:
    return panels.stat_panel(
        "Offences",
        "How often the rule was broken over the range, at any level.",
        {"offences": queries.OFFENCES},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
    )


def _software() -> panels.Panel:
    return panels.stat_panel(
        "Versions of client software",
        "How many versions had connections on which it was broken over the range, by client or broker.",
        {"versions": queries.OFFENDING_SOFTWARE},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
    )


def _first_seen() -> panels.Panel:
    return _seen("First seen", "When the rule was first broken within the range.", queries.FIRST_SEEN)


def _last_seen() -> panels.Panel:
    return _seen("Last seen", "When the rule was last broken within the range.", queries.LAST_SEEN)


def _seen(title: str, description: str, query: str) -> panels.Panel:
    return panels.stat_panel(
        title,
        f"{description} To the minute; longer ago with a longer range.",
        {title.lower(): query},
        unit=panels.MOMENT,
        steps=[(0, GREY), (1, BLUE)],
        span=6,
        empty="not in the range",
    )


def _trend() -> panels.Panel:
    return panels.graph_panel(
        "Offences by client software",
        "How often the rule is broken, by the software of the connection.",
        {"{{client_software_name}} {{client_software_version}}": queries.OFFENCE_RATE_BY_SOFTWARE},
        unit=panels.PER_SECOND,
        span=12,
        empty=NONE_FOUND,
    )


def _checks() -> panels.Panel:
    return panels.graph_panel(
        "Checks by verdict",
        "How often there was something to judge, and how it ended. Without checks nothing is known.",
        {"{{verdict}}": queries.CHECK_RATE_BY_VERDICT},
        unit=panels.PER_SECOND,
        span=12,
        empty="kipwatch is not scraped",
    )


def _by_software() -> panels.Panel:
    table = panels.table_panel(
        "Offences by rule and client software",
        "What was found over the range, with the level of each judgement.",
        {"Offences": queries.OFFENCES_BY_RULE_AND_SOFTWARE},
        span=12,
        empty=NONE_FOUND,
    )
    return table.override_by_name("client_software_name", panels.link("This client", links.to_software()))


def _pages(places: Places) -> panels.Panel:
    table = panels.table_panel(
        "Broken rules and their pages",
        "When each rule was first and last broken within the range, and its section in the runbook.",
        {
            "Offences": places.with_page(queries.OFFENCES_BY_RULE),
            "First seen": places.with_page(queries.FIRST_SEEN_BY_RULE),
            "Last seen": places.with_page(queries.LAST_SEEN_BY_RULE),
        },
        span=12,
        empty=NONE_FOUND,
    )
    if places.is_published:
        table.override_by_name(links.PAGE, panels.link("Its page in the runbook", links.to_page()))
    table.override_by_name("First seen", panels.column(panels.MOMENT))
    return table.override_by_name("Last seen", panels.column(panels.MOMENT))
