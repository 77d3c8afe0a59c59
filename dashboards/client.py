"""The Client dashboard: one client software: its versions, connections, requests, findings, and new KIPs."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import fleet_queries, links, panels, queries, tables, variables
from dashboards.layout import dashboard as laid_out
from dashboards.panels import GREEN, RED
from dashboards.tables import API, API_VERSION, RULE_NAME, VERSION
from expectations.report.upgrade import Fate

NO_REQUEST = "no request of the chosen software was read in the range"


def dashboard() -> builder.Dashboard:
    """Return the dashboard for the owner of a client software."""
    return laid_out(
        links.CLIENT,
        "Kafka protocol: client",
        "One client software, chosen above. No metric names client IDs: ask the archive about those.",
        [variables.requesting()],
        {
            "How is it?": [_open(), _versions(), _offences(), _header(), _ids()],
            "Who is connected, and what breaks?": [_connections(), _findings()],
            "What does it send?": [_requests(), _adoption()],
            "Does it find its way back?": [_rebootstraps(), _misrouted()],
        },
    )


def _open() -> panels.Panel:
    return panels.stat_panel(
        "Open connections",
        "At the end of the range.",
        {"connections": fleet_queries.OPEN},
        unit=panels.COUNT,
        span=5,
    )


def _versions() -> panels.Panel:
    return panels.stat_panel(
        "Versions",
        "How many of its versions had an open connection when kipwatch was scraped, in the range.",
        {"versions": fleet_queries.VERSIONS_SEEN},
        unit=panels.COUNT,
        span=4,
    )


def _offences() -> panels.Panel:
    return panels.stat_panel(
        "Offences by all rules",
        "How often rules were broken on its connections over the range, at any level, by client or broker.",
        {"offences": fleet_queries.OFFENCES},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=5,
    )


def _header() -> panels.Panel:
    return panels.stat_panel(
        "Requests with an instance ID",
        "The share of its requests with request header 3, which carries the client instance ID (KIP-1313).",
        {"share": fleet_queries.HEADER_3_SHARE},
        unit=panels.SHARE,
        span=5,
    )


def _ids() -> panels.Panel:
    return panels.stat_panel(
        "Connections that name their broker",
        "The share of its ApiVersions requests of version 5 or later that give cluster and node (KIP-1242).",
        {"share": fleet_queries.IDS_SHARE},
        unit=panels.SHARE,
        span=5,
    )


def _connections() -> panels.Panel:
    return panels.graph_panel(
        "Open connections by version",
        "Connections that are open when kipwatch is scraped.",
        {"{{client_software_name}} {{client_software_version}}": queries.OPEN_BY_SOFTWARE},
        unit=panels.COUNT,
        span=24,
        empty="no open connection was sampled in the range",
    )


def _findings() -> panels.Panel:
    return tables.table_panel(
        "Offences by rule",
        "What was found on its connections over the range.",
        {"Offences": fleet_queries.offences_by("rule", "level", "client_software_version")},
        [RULE_NAME, VERSION, tables.LEVEL_NAME, tables.count("Offences")],
        empty="no offence in the range",
        sort=["Offences"],
    )


def _requests() -> panels.Panel:
    return tables.table_panel(
        "Requests by API version",
        "What it sent over the range, and what the release of the loaded schemas does with that version.",
        {"Requests": fleet_queries.fated_by(*fleet_queries.VERSION, "fate", fates=tuple(Fate))},
        [API, API_VERSION, tables.FATE, tables.count("Requests")],
        empty=NO_REQUEST,
        sort=["Requests"],
    )


def _adoption() -> panels.Panel:
    return panels.graph_panel(
        "Share of requests with an instance ID",
        "How far KIP-1313 has come, by software.",
        {"{{client_software_name}}": fleet_queries.HEADER_3_TREND},
        unit=panels.SHARE,
        span=24,
        empty="no request with header 3 in the range",
    )


def _rebootstraps() -> panels.Panel:
    return panels.stat_panel(
        "Connections after a rebootstrap",
        "After error 129 a client must forget the broker (KIP-1242). Conforms: it came back without the old "
        "IDs. Violates: it came back with them, and goes in circles. All software counts, chosen or not.",
        {"{{verdict}}": fleet_queries.REBOOTSTRAPS},
        unit=panels.COUNT,
        span=24,
        empty="none",
    )


def _misrouted() -> panels.Panel:
    return tables.table_panel(
        "Offences against KIP-1242",
        "Misrouted connections of the software over the range, and what it did about them.",
        {"Offences": fleet_queries.offences_by("rule", "client_software_version", of="kip1242/.+")},
        [RULE_NAME, VERSION, tables.count("Offences")],
        empty="it reached the brokers that it meant to reach, or named none",
        sort=["Offences"],
    )
