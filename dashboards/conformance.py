"""The Conformance dashboard: whether the fleet conforms, since when, and how much was checked.

Beside a zero it shows how often the rule could have been broken, so that "no violations" and "blind" never
look alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import layout, links, panels, queries, tables
from dashboards.alert import LOST_SHARE, SLOW_BATCH_AFTER, STALLED_AFTER, UNDECODABLE_SHARE, Alert
from dashboards.links import SECTION_OF_LABEL, Addresses
from dashboards.panels import AMBER, GREEN, RED
from dashboards.tables import CLIENT, FIRST, LAST, LEVEL, RULE, VERSION
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Level, Verdict

OFFENCES_HEIGHT, ALERTS_HEIGHT = 9, 6
"""With the figures above, these panels fill the first screen, 900 pixels high."""
MOSTLY = 0.5
"""The share of undecided checks from which on most are undecided."""
TIMELINE_HEIGHT, OTHERS_HEIGHT = 12, 36


def dashboard(addresses: Addresses, alerts: Iterable[Alert]) -> builder.Dashboard:
    """Build the dashboard that people open first. `alerts` are all alerts."""
    return layout.laid_out(
        links.CONFORMANCE,
        "Kafka protocol: conformance",
        "Whether clients and brokers obey the rules of KIP-1313, 1082, 511, 35 and 1242.",
        [layout.choose_rules(), layout.choose_software(), layout.choose_clusters(), layout.choose_owners()],
        {
            "Who breaks what, since when, how bad?": _who_breaks_what(addresses, alerts),
            "Whose clients offend?": [_owners()],
            "When?": [_timeline()],
            "How much was checked?": _how_much_was_checked(),
        },
        collapsed={"Rules without an offence": [_others()]},
    )


def _who_breaks_what(addresses: Addresses, alerts: Iterable[Alert]) -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Rules violated now",
            "How many rules were violated in the five minutes before the end of the range. A zero means "
            "only as much as the number of rules exercised.",
            {"rules": queries.RULES_VIOLATED_NOW},
            steps=[(0, GREEN), (1, RED)],
            source=queries.SEEING,
            span=5,
            empty=panels.NOT_SCRAPED,
        ),
        panels.names_panel(
            "Violating now",
            "The rules of the figure beside, and the client software on whose connections they were "
            f"violated, with the offences of these five minutes; {queries.FEW} at most, those with most "
            "offences. The table below has all, with their versions.",
            queries.VIOLATED_NOW,
            legend="{{rule}}: {{client_software_name}}",
            colour=RED,
            span=10,
            empty="none",
        ),
        panels.stat_panel(
            "Since the last violation",
            "How long no rule was violated. To the minute if it was in the range, else to five minutes, "
            f"and as far back as {queries.LOOK_BACK}.",
            {"since": queries.SINCE_VIOLATION},
            unit=panels.SECONDS,
            steps=[(0, RED), (3600, AMBER), (86400, GREEN)],
            source=queries.SEEING,
            span=5,
        ).mappings([panels.mapping({queries.NONE_KNOWN: ("none known", GREEN)})]),
        panels.stat_panel(
            "Violations",
            "Offences of the level violation over the range: against what a KIP demands.",
            {"violations": queries.VIOLATIONS},
            span=4,
        ),
        _offences(),
        _alerts(addresses, alerts),
    ]


def _offences() -> panels.Panel:
    by = queries.BY_OFFENCE
    return tables.table_panel(
        "Offences",
        "What was found over the range, by client software of the connection, rule and level, and when it "
        "was found first and last.",
        {
            "Level": queries.gravest_level(*by),
            "Offences": queries.offences_by(*by),
            "First": queries.first_seen_by(*by),
            "Last": queries.last_seen_by(*by),
        },
        [CLIENT, VERSION, RULE, LEVEL, tables.count("Offences"), FIRST, LAST],
        height=OFFENCES_HEIGHT,
        empty="no offence was found: see below how much was checked",
        sort=["Level", "Offences"],
    )


def _alerts(addresses: Addresses, alerts: Iterable[Alert]) -> panels.Panel:
    """List the alerts that fire, with a column that links to the runbook if a browser can open it."""
    own = {
        alert.name: addresses.section(alert.anchor()) for alert in alerts if alert.section != SECTION_OF_LABEL
    }
    what_to_do = tables.WHAT_TO_DO if addresses.is_published else ()
    return tables.table_panel(
        "Firing alerts",
        "Alerts about Kafka and about kipwatch itself that fire at the end of the range, since when, and "
        "how many are alike but for other labels. An alert leads to the dashboard of what it is about. The "
        f"runbook, {addresses.runbook}, has a section for each alert and rule.",
        {
            "Severity": queries.FIRING_SEVERITY,
            "Since": queries.FIRING_SINCE,
            "Firing": addresses.with_sections(queries.FIRING, own) if what_to_do else queries.FIRING,
        },
        [
            tables.TableColumn("alertname", "Alert", 215, leads=links.TO_SUBJECT, grows=False),
            tables.SEVERITY,
            tables.SINCE,
            tables.TableColumn("Firing", "Firing", 65, unit=panels.COUNT),
            tables.TableColumn("rule", "Rule", tables.RULE_WIDTH, grows=False),
            *what_to_do,
            tables.TableColumn(queries.WHO, "Who and where", 144),
            tables.SUBJECT,
        ],
        height=ALERTS_HEIGHT,
        empty="no alert fires, if Prometheus has loaded dashboards/generated/alerts.yml",
        sort=["Severity", "Since"],
    )


def _owners() -> panels.Panel:
    return tables.table_panel(
        "Whose clients offend",
        "Offences on the connections of each owner's clients over the range, and how many versions of "
        "client software violated. Owners come from the file that the setting `owners` names; unknown are "
        "clients that it gives to nobody.",
        {
            "Violating software": queries.clients_of_owners(Level.VIOLATION),
            "Violations": queries.client_offences(Level.VIOLATION, "owner"),
            "Improvements": queries.client_offences(Level.IMPROVEMENT, "owner"),
            "Last": queries.last_seen_by("owner"),
        },
        [
            tables.OWNER,
            tables.count("Violating software"),
            tables.count("Violations"),
            tables.count("Improvements"),
            LAST,
        ],
        empty="no client offends; see below how much was checked",
        sort=["Violations", "Improvements"],
    )


def _timeline() -> panels.Panel:
    return panels.rule_timeline(
        "Rules that were broken in the range",
        queries.STATE_OF_OFFENDED,
        height=TIMELINE_HEIGHT,
        empty="no rule was broken, or Prometheus has not loaded dashboards/generated/alerts.yml",
    )


def _how_much_was_checked() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Rules exercised",
            "How many of the rules were decided at least once in the range, and how many there are. "
            "Nothing is known of a rule that was not exercised.",
            {"exercised": queries.RULES_EXERCISED, "of": queries.RULES},
            span=4,
        ),
        panels.stat_panel(
            "Checks",
            "How often a rule had the opportunity to be broken, over the range.",
            {"checks": queries.CHECKS},
            span=3,
        ),
        panels.stat_panel(
            "Undecided checks",
            "The share of checks that depended on something not seen: a gap in the capture, a connection "
            "joined midway, bytes that were cut. Connections that were open before kipwatch have some.",
            {"undecided share": queries.UNDECIDED_SHARE},
            unit=panels.SHARE,
            steps=[(0, GREEN), (MOSTLY, AMBER)],
            span=4,
            empty="no checks",
        ),
        since_batch(),
        undecodable_share(),
        lost_share(),
        tables.table_panel(
            "Coverage",
            "How often each rule was checked over the range, and how it ended. Violates counts offences of "
            "any level: the figures of violations above count only those against what a KIP demands.",
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
                tables.count("Violates, any level"),
                tables.count("Undecided"),
            ],
            height=OTHERS_HEIGHT // 2,
            empty=panels.NOT_SCRAPED,
            sort=["Violates, any level", "Exercised"],
        ),
        _reasons(),
    ]


def since_batch() -> panels.Panel:
    """Return the panel on the age of the last batch."""
    return panels.stat_panel(
        "Since the last batch",
        "While no batch is finished, nothing is judged.",
        {"seconds": queries.SECONDS_SINCE_BATCH},
        unit=panels.SECONDS,
        steps=[(0, GREEN), (SLOW_BATCH_AFTER, AMBER), (STALLED_AFTER, RED)],
        source=None,
        span=5,
        empty=f"no batch in {queries.LOOK_BACK}",
    )


def undecodable_share() -> panels.Panel:
    """Return the panel on frames that cannot be decoded."""
    return panels.stat_panel(
        "Undecodable frames",
        "The share of complete frames that no known schema could read, over 15 minutes, apart from "
        "versions that the release has removed. They are not judged.",
        {"undecodable share": queries.UNDECODABLE_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (UNDECODABLE_SHARE / 10, AMBER), (UNDECODABLE_SHARE, RED)],
        source=queries.SEEING,
        span=4,
        empty=panels.NOT_SCRAPED,
    )


def lost_share() -> panels.Panel:
    """Return the panel on bytes that were missed."""
    return panels.stat_panel(
        "Bytes not captured",
        "The largest share of bytes that a feeder missed or did not publish, over 5 minutes.",
        {"lost share": queries.LOST_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (LOST_SHARE / 10, AMBER), (LOST_SHARE, RED)],
        source=queries.CAPTURING,
        span=4,
        empty="no feeder sees traffic",
    )


def _reasons() -> panels.Panel:
    meanings = "; ".join(f"{reason}, {reason.meaning}" for reason in Reason)
    return tables.table_panel(
        "Why checks were undecided",
        f"The reason of each undecided check over the range: {meanings}.",
        {"Undecided": queries.UNDECIDED_BY_REASON},
        [RULE, tables.TableColumn("reason", "Reason", 170), tables.count("Undecided")],
        empty="no check was undecided",
    )


def _others() -> panels.Panel:
    return panels.rule_timeline(
        "Rules that were not broken in the range",
        queries.STATE_OF_OTHERS,
        height=OTHERS_HEIGHT,
        empty="no data: is dashboards/generated/alerts.yml loaded by Prometheus?",
    )
