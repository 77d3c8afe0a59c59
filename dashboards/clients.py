"""The Clients dashboard, on the software of the whole fleet, and the Client dashboard, on one software.

Clients shows which software is connected, who offends, and who would break at an upgrade. Client is for the
owner of one software: its versions, connections, requests and findings, and how far it has adopted new KIPs.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import fleet_queries, layout, links, panels, queries, tables
from dashboards.panels import AMBER, GREEN, RED
from dashboards.tables import API, API_VERSION, CLIENT, RULE, VERSION
from expectations.rules.base.rule import Level

NONE_FOUND = "no client offends; see Conformance for how much was checked"
NOBODY = "no open connection was sampled in the range"
NO_REQUEST = "no request of the chosen software was read in the range"


def dashboard() -> builder.Dashboard:
    """Build the Clients dashboard, for people who talk to the owners of clients."""
    return layout.laid_out(
        links.CLIENTS,
        "Kafka protocol: clients",
        "The client software of the fleet, by name and version as clients send them (KIP-511).",
        [layout.choose_rules(), layout.choose_software(), layout.choose_clusters(), layout.choose_owners()],
        {
            "Who offends?": _who_offends(),
            "Who is connected?": _who_is_connected(),
        },
    )


def _who_offends() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Versions that violate",
            "How many versions of client software did what a KIP forbids, over the range.",
            {"violating": queries.offending_clients(Level.VIOLATION)},
            steps=[(0, GREEN), (1, RED)],
            span=6,
        ),
        panels.stat_panel(
            "Versions at risk",
            "How many versions of client software did what works today and a KIP advises against: a later "
            "broker may refuse it.",
            {"at risk": queries.offending_clients(Level.IMPROVEMENT)},
            steps=[(0, GREEN), (1, AMBER)],
            span=6,
        ),
        panels.stat_panel(
            "Versions of client software",
            "How many different names and versions had an open connection when kipwatch was scraped, or "
            "offended, in the range.",
            {"versions": queries.SEEN_SOFTWARE},
            span=6,
        ),
        panels.stat_panel(
            "Connections without a name",
            "The share of connections whose client did not say what it is: it is older than KIP-511, or "
            "was joined midway. At their highest numbers in the range.",
            {"unknown share": queries.NAMELESS_SHARE},
            unit=panels.SHARE,
            steps=[(0, GREEN), (0.1, AMBER), (0.5, RED)],
            span=6,
            empty=NOBODY,
        ),
        tables.table_panel(
            "Who violates",
            "Clients that did what a KIP forbids, and the rule. Brokers may accept it today.",
            {"Offences": queries.client_offences(Level.VIOLATION, "rule", *queries.BY_SOFTWARE)},
            [CLIENT, VERSION, RULE, tables.count("Offences")],
            empty=NONE_FOUND,
        ),
        tables.table_panel(
            "Who is at risk",
            "Versions of client software by how surely a broker that enforces the KIPs would refuse them: "
            "it must refuse what is forbidden, and may refuse what is advised against.",
            {
                "Forbidden": queries.client_offences(Level.VIOLATION, *queries.BY_SOFTWARE),
                "Advised against": queries.client_offences(Level.IMPROVEMENT, *queries.BY_SOFTWARE),
            },
            [CLIENT, VERSION, tables.count("Forbidden"), tables.count("Advised against")],
            empty=NONE_FOUND,
        ),
    ]


def _who_is_connected() -> list[panels.Panel]:
    return [
        tables.table_panel(
            "Software and version",
            "The most connections that each had open at once in the range, and its offences of any level. "
            "A client whose connections end between two scrapes has offences and no connections.",
            {
                "Connections": queries.MOST_OPEN_BY_SOFTWARE,
                "Offences": queries.offences_by(*queries.BY_SOFTWARE),
            },
            [
                CLIENT,
                VERSION,
                tables.count("Connections", empty=tables.MISSING),
                tables.count("Offences"),
            ],
            empty=NOBODY,
        ),
        panels.graph_panel(
            "Open connections by client software",
            "What clients call themselves in ApiVersions (KIP-511); unknown if they do not say.",
            {"{{client_software_name}} {{client_software_version}}": queries.OPEN_BY_SOFTWARE},
            span=16,
            empty=NOBODY,
        ),
        panels.graph_panel(
            "Open connections by listener",
            "The listener that they are connected to: its name in kipwatch's configuration, or its address.",
            {"{{listener}}": queries.OPEN_BY_LISTENER},
            span=8,
            empty=NOBODY,
        ),
    ]


def client_dashboard() -> builder.Dashboard:
    """Build the Client dashboard, for the owner of a client software."""
    return layout.laid_out(
        links.CLIENT,
        "Kafka protocol: client",
        "One client software, chosen above. No metric names client IDs: ask the archive about those.",
        [layout.choose_software(), layout.choose_clusters(), layout.choose_owners()],
        {
            "How is it?": _how_it_is(),
            "Who is connected, and what breaks?": _its_connections(),
            "What does it send?": _what_it_sends(),
            "Does it find its way back?": _whether_it_finds_back(),
        },
    )


def _how_it_is() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Connections",
            "Its open connections at the end of the range.",
            {"connections": fleet_queries.OPEN},
            span=4,
        ),
        panels.stat_panel(
            "Versions",
            "How many of its versions had an open connection when kipwatch was scraped, in the range.",
            {"versions": fleet_queries.VERSIONS_SEEN},
            span=3,
        ),
        panels.levels_panel(
            "How often rules were broken on its connections over the range, by client or broker: a "
            "violation is against what a KIP demands.",
            fleet_queries.OFFENCES_BY_LEVEL,
            span=5,
        ),
        panels.stat_panel(
            "Requests with an instance ID",
            "The share of its requests with request header v3, which has the client instance ID (KIP-1313).",
            {"share": fleet_queries.HEADER_3_SHARE},
            unit=panels.SHARE,
            span=6,
            empty="no request",
        ),
        panels.stat_panel(
            "Requests that name the broker",
            "The share of its ApiVersions requests of version 5 or later that give cluster or node "
            "(KIP-1242).",
            {"share": fleet_queries.IDS_SHARE},
            unit=panels.SHARE,
            span=6,
            empty="no such request",
        ),
    ]


def _its_connections() -> list[panels.Panel]:
    return [
        panels.graph_panel(
            "Open connections by version",
            "Connections that are open when kipwatch is scraped.",
            {"{{client_software_name}} {{client_software_version}}": queries.OPEN_BY_SOFTWARE},
            span=24,
            empty="no open connection was sampled in the range",
        ),
        tables.table_panel(
            "Offences by rule",
            "What was found on its connections over the range.",
            {"Offences": fleet_queries.offences_by(*queries.BY_OFFENCE)},
            [RULE, CLIENT, VERSION, tables.LEVEL_NAME, tables.count("Offences")],
            empty="no offence in the range",
        ),
    ]


def _what_it_sends() -> list[panels.Panel]:
    return [
        tables.table_panel(
            "Requests by API version",
            "What it sent over the range, and what the release of the loaded schemas does with that "
            "version. Newer is one above those that it has: a client that negotiates sends a lower one "
            "instead.",
            {"Requests": fleet_queries.fated_by(*fleet_queries.VERSION, "fate")},
            [API, API_VERSION, tables.FATE, tables.count("Requests")],
            empty=NO_REQUEST,
        ),
        panels.graph_panel(
            "Share of requests with an instance ID",
            "How far KIP-1313 has come, by software.",
            {"{{client_software_name}}": fleet_queries.HEADER_3_TREND},
            unit=panels.SHARE,
            span=24,
            empty="no request with header v3 in the range",
        ),
    ]


def _whether_it_finds_back() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Connections after a rebootstrap",
            "After error 129 a client must forget the broker (KIP-1242). Conforms: it came back without "
            "the old IDs. Violates: it came back with them, and goes in circles. All software counts, "
            "chosen or not.",
            {"{{verdict}}": fleet_queries.REBOOTSTRAPS},
            span=24,
            empty="none was seen",
        ),
        tables.table_panel(
            "Offences against KIP-1242",
            "Misrouted connections of the software over the range, and what it did about them.",
            {"Offences": fleet_queries.offences_by("rule", *queries.BY_SOFTWARE, of="kip1242/.+")},
            [RULE, CLIENT, VERSION, tables.count("Offences")],
            empty="it reached the brokers that it meant to reach, or named none",
        ),
    ]
