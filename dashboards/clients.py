"""The Clients dashboard: which software is in the fleet, who violates, who would break at an upgrade."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import links, panels, queries
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, BLUE, GREEN, GREY, RED
from expectations.rules.base.rule import Level

NONE_FOUND = "no client offends; see Conformance for how much was checked"
NOBODY = "no client was connected in the range"


def dashboard() -> builder.Dashboard:
    """Return the dashboard for people who talk to the owners of clients."""
    return laid_out(
        links.CLIENTS,
        "Kafka protocol: clients",
        "The client software of the fleet, by name and version as clients send them (KIP-511).",
        {
            "The fleet": [_software(), _nameless(), _violating(), _breaking()],
            "Who is connected": [_connections(), _listeners(), _versions()],
            "Who offends": [_violators(), _endangered()],
        },
    )


def _software() -> panels.Panel:
    return panels.stat_panel(
        "Versions of client software",
        "How many different names and versions were connected in the range.",
        {"versions": queries.CONNECTED_SOFTWARE},
        unit=panels.COUNT,
        steps=[(0, GREY), (1, BLUE)],
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
        {"violating": queries.offending_clients(Level.VIOLATION)},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=6,
    )


def _breaking() -> panels.Panel:
    return panels.stat_panel(
        "Versions at risk",
        "How many versions of client software did what works today and a KIP advises against: a later "
        "broker may refuse it.",
        {"at risk": queries.offending_clients(Level.IMPROVEMENT)},
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
    table = panels.table_panel(
        "Software and version",
        "The most connections that each had open at once in the range.",
        {"Connections": queries.MOST_OPEN_BY_SOFTWARE},
        span=24,
        empty=NOBODY,
    )
    return table.override_by_name("client_software_name", panels.link("This client", links.to_software()))


def _violators() -> panels.Panel:
    table = panels.table_panel(
        "Who violates",
        "Clients that did what a KIP forbids, and the rule. Brokers may accept it today.",
        {"Offences": queries.client_offences(Level.VIOLATION, "rule", *queries.BY_SOFTWARE)},
        span=12,
        empty=NONE_FOUND,
    )
    return table.override_by_name("rule", panels.link("This rule", links.to_rule()))


def _endangered() -> panels.Panel:
    table = panels.table_panel(
        "Who would break at the next upgrade",
        "Versions of client software by how surely a broker that enforces the KIPs would refuse them: "
        "it must refuse what is forbidden, and may refuse what is advised against.",
        {
            "Forbidden": queries.client_offences(Level.VIOLATION, *queries.BY_SOFTWARE),
            "Advised against": queries.client_offences(Level.IMPROVEMENT, *queries.BY_SOFTWARE),
        },
        span=12,
        empty=NONE_FOUND,
    )
    return table.override_by_name("client_software_name", panels.link("This client", links.to_software()))
