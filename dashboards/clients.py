"""The Clients dashboard: which software is in the fleet, who violates, who would break at an upgrade."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import links, offence_queries, panels, queries, tables, variables
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, GREEN, RED
from dashboards.tables import CLIENT, RULE, VERSION
from expectations.rules.base.rule import Level

NONE_FOUND = "no client offends; see Conformance for how much was checked"
NOBODY = "no open connection was sampled in the range"


def dashboard() -> builder.Dashboard:
    """Return the dashboard for people who talk to the owners of clients."""
    return laid_out(
        links.CLIENTS,
        "Kafka protocol: clients",
        "The client software of the fleet, by name and version as clients send them (KIP-511).",
        [variables.rules(), variables.software()],
        {
            "Who offends?": [
                _violating(),
                _breaking(),
                _software(),
                _nameless(),
                _violators(),
                _endangered(),
            ],
            "Who is connected?": [_versions(), _connections(), _listeners()],
        },
    )


def _software() -> panels.Panel:
    return panels.stat_panel(
        "Versions of client software",
        "How many different names and versions had an open connection when kipwatch was scraped, or "
        "offended, in the range.",
        {"versions": offence_queries.SEEN_SOFTWARE},
        unit=panels.COUNT,
        span=6,
    )


def _nameless() -> panels.Panel:
    return panels.stat_panel(
        "Connections without a name",
        "The share of connections whose client did not say what it is: it is older than KIP-511, or was "
        "joined midway. At their highest numbers in the range.",
        {"unknown share": queries.NAMELESS_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (0.1, AMBER), (0.5, RED)],
        span=6,
    )


def _violating() -> panels.Panel:
    return panels.stat_panel(
        "Versions that violate",
        "How many versions of client software did what a KIP forbids, over the range.",
        {"violating": offence_queries.offending_clients(Level.VIOLATION)},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=6,
    )


def _breaking() -> panels.Panel:
    return panels.stat_panel(
        "Versions at risk",
        "How many versions of client software did what works today and a KIP advises against: a later "
        "broker may refuse it.",
        {"at risk": offence_queries.offending_clients(Level.IMPROVEMENT)},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
    )


def _connections() -> panels.Panel:
    return panels.graph_panel(
        "Open connections by client software",
        "What clients call themselves in ApiVersions (KIP-511); unknown if they do not say.",
        {"{{client_software_name}} {{client_software_version}}": queries.OPEN_BY_SOFTWARE},
        unit=panels.COUNT,
        span=16,
        empty=NOBODY,
    )


def _listeners() -> panels.Panel:
    return panels.graph_panel(
        "Open connections by listener",
        "The listener that they are connected to: its name in kipwatch's configuration, or its address.",
        {"{{listener}}": queries.OPEN_BY_LISTENER},
        unit=panels.COUNT,
        span=8,
        empty=NOBODY,
    )


def _versions() -> panels.Panel:
    return tables.table_panel(
        "Software and version",
        "The most connections that each had open at once in the range, and its offences of any level. A "
        "client whose connections end between two scrapes has offences and no connections.",
        {
            "Connections": queries.MOST_OPEN_BY_SOFTWARE,
            "Offences": offence_queries.offences_by(*queries.BY_SOFTWARE),
        },
        [
            CLIENT,
            VERSION,
            tables.count("Connections", width=130, empty=tables.MISSING),
            tables.count("Offences"),
        ],
        empty=NOBODY,
        sort=["Connections", "Offences"],
    )


def _violators() -> panels.Panel:
    return tables.table_panel(
        "Who violates",
        "Clients that did what a KIP forbids, and the rule. Brokers may accept it today.",
        {"Offences": offence_queries.client_offences(Level.VIOLATION, "rule", *queries.BY_SOFTWARE)},
        [CLIENT, VERSION, RULE, tables.count("Offences")],
        empty=NONE_FOUND,
        sort=["Offences"],
    )


def _endangered() -> panels.Panel:
    return tables.table_panel(
        "Who would break at the next upgrade",
        "Versions of client software by how surely a broker that enforces the KIPs would refuse them: "
        "it must refuse what is forbidden, and may refuse what is advised against.",
        {
            "Forbidden": offence_queries.client_offences(Level.VIOLATION, *queries.BY_SOFTWARE),
            "Advised against": offence_queries.client_offences(Level.IMPROVEMENT, *queries.BY_SOFTWARE),
        },
        [CLIENT, VERSION, tables.count("Forbidden"), tables.count("Advised against", width=140)],
        empty=NONE_FOUND,
        sort=["Forbidden", "Advised against"],
    )
