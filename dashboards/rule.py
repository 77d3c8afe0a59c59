"""The Rule dashboard: one rule across the fleet: who breaks it, since when, how often."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import layout, links, panels, queries, tables
from dashboards.links import Addresses
from dashboards.tables import CLIENT, CLUSTER, FIRST, LAST, LEVEL, LISTENER, OWNED, RULE, VERSION
from expectations.rules.base.rule import Verdict
from streaming.metrics import definitions as metrics

TIMELINE_HEIGHT = 5
"""Room for one bar, the axis and the legend."""
NONE_FOUND = "no offence in the range; the checks show whether there could have been one"


def dashboard(addresses: Addresses) -> builder.Dashboard:
    """Build the dashboard, to which alerts link."""
    return layout.laid_out(
        links.RULE,
        "Kafka protocol: rule",
        "One rule across the fleet: choose it above. The last table says where its page is.",
        [layout.choose_rule(), layout.choose_software(), layout.choose_clusters(), layout.choose_owners()],
        {
            "How bad, since when?": _how_bad(),
            "Who, and how often?": _who_and_how_often(),
            "What to do": [_pages(addresses)],
        },
    )


def _how_bad() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Offences",
            "How often the rule was broken over the range, at any level.",
            {"offences": queries.OFFENCES},
            span=4,
        ),
        panels.levels_panel(
            "The same offences by the level of each judgement: a violation is against what the KIP demands.",
            queries.OFFENCES_BY_LEVEL,
            span=6,
        ),
        panels.stat_panel(
            "Versions of client software",
            "How many versions had connections on which it was broken over the range, by client or broker.",
            {"versions": queries.OFFENDING_SOFTWARE},
            span=6,
        ),
        panels.stat_panel(
            "First seen",
            f"When the rule was first broken within the range, to the minute. {queries.LOOK_BACK} before "
            "the range are looked at, too.",
            {"first seen": queries.FIRST_SEEN},
            unit=panels.MOMENT,
            span=4,
            empty="not in the range",
        ).mappings([panels.mapping(tables.BEFORE_RANGE)]),
        panels.stat_panel(
            "Last seen",
            "When the rule was last broken: to the minute if it was in the range, else to five minutes and "
            f"as far back as {queries.LOOK_BACK}.",
            {"last seen": queries.LAST_SEEN},
            unit=panels.MOMENT,
            span=4,
            empty=f"not in {queries.LOOK_BACK}",
        ),
        panels.rule_timeline(
            "State",
            queries.STATE_BY_RULE,
            height=TIMELINE_HEIGHT,
            empty="no data: is dashboards/generated/alerts.yml loaded by Prometheus?",
        ),
    ]


def _who_and_how_often() -> list[panels.Panel]:
    return [
        _by_software(),
        panels.stacked_bars(
            panels.graph_panel(
                "Offences by client software",
                "How often the rule was broken within the time of each bar, by the connection's software.",
                {
                    "{{client_software_name}} {{client_software_version}}": queries.offences_in_steps(
                        *queries.BY_SOFTWARE
                    )
                },
                span=12,
                empty=NONE_FOUND,
            )
        ),
        panels.coloured(
            panels.graph_panel(
                "Checks by verdict",
                "How often there was something to judge, and how it ended; violates counts offences of any "
                "level. Without checks nothing is known.",
                {"{{verdict}}": queries.CHECK_RATE_BY_VERDICT},
                unit=panels.CHECKS_PER_SECOND,
                span=12,
                empty=panels.NOT_SCRAPED,
            ),
            panels.VERDICT_COLOURS,
        ),
    ]


def _by_software() -> panels.Panel:
    by = (*queries.BY_OFFENCE, *metrics.PLACE, "owner")
    return tables.table_panel(
        "Offences by client, owner, place and level",
        "What was found over the range, whose the clients are, where, and the level of each judgement.",
        {
            "Level": queries.gravest_level(*by),
            "Offences": queries.offences_by(*by),
            "First": queries.first_seen_by(*by),
            "Last": queries.last_seen_by(*by),
        },
        [CLIENT, VERSION, OWNED, CLUSTER, LISTENER, LEVEL, tables.count("Offences"), FIRST, LAST],
        empty=NONE_FOUND,
        sort=["Level", "Offences"],
    )


def _pages(addresses: Addresses) -> panels.Panel:
    page = links.TO_PAGE if addresses.is_published else ""
    return tables.table_panel(
        "The rule and its page",
        "Where the rule's page is, which says why it matters and what to do: the command that prints it, "
        "or the address of your own runbook if the dashboards were built for it.",
        {"Checks": addresses.with_page(queries.checks_by_rule(*Verdict))},
        [RULE, tables.TableColumn(links.PAGE, "Page", 420, leads=page), tables.count("Checks")],
        height=panels.STAT_HEIGHT,
        empty=panels.NOT_SCRAPED,
        sort=(),
    )
