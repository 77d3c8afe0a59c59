"""The Upgrade dashboard: whose requests the release of the loaded schemas refuses or deprecates."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.models.common import BigValueTextMode

from dashboards import fleet_queries, layout, links, panels, tables
from dashboards.panels import AMBER, GREEN, RED
from dashboards.tables import API, API_VERSION, CLIENT
from expectations.report.upgrade import UpgradeFate

NOT_ASKED = "`kipwatch report --upgrade-to` tells who could negotiate another version, and by client ID."
NOBODY = "no request would be refused, or none was read"
BY_VERSION = (fleet_queries.NAME, *fleet_queries.VERSION)


def dashboard() -> builder.Dashboard:
    """Build the dashboard, to be looked at before brokers are upgraded."""
    return layout.laid_out(
        links.UPGRADE,
        "Kafka protocol: upgrade",
        "What would break if the brokers ran the Kafka release whose schemas are loaded.",
        [layout.choose_software()],
        {
            "Who would break?": _who_would_break(),
            "Does it get better?": _trend(),
            "Who sends what?": [_versions()],
        },
    )


def _who_would_break() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Requests that would be refused",
            f"Requests over the range at API versions that the release does not have (KIP-896). {NOT_ASKED}",
            {"requests": fleet_queries.REMOVED},
            steps=[(0, GREEN), (1, RED)],
            span=6,
        ),
        panels.stat_panel(
            "Client software that would break",
            "How many names of client software sent such requests, unknown ones as one.",
            {"software": fleet_queries.BREAKING},
            steps=[(0, GREEN), (1, RED)],
            span=6,
        ),
        panels.stat_panel(
            "Requests at deprecated versions",
            "Requests over the range at API versions that the release has, and a later one will not have.",
            {"requests": fleet_queries.DEPRECATED},
            steps=[(0, GREEN), (1, AMBER)],
            span=6,
        ),
        panels.stat_panel(
            "Kafka release",
            "The release whose schemas are loaded: the setting `schemas` names another.",
            {"{{kafka}}": fleet_queries.RELEASES},
            span=6,
        ).text_mode(BigValueTextMode.NAME),
        tables.table_panel(
            "Who would break, and by what",
            f"Client software by the API versions that the release does not have, by traffic. {NOT_ASKED}",
            {"Requests": fleet_queries.fated_by(*BY_VERSION, fates=(UpgradeFate.REMOVED,))},
            [CLIENT, API, API_VERSION, tables.count("Requests")],
            empty=NOBODY,
        ),
        tables.table_panel(
            "Who should move on",
            "Client software by the API versions that the release deprecates, by traffic.",
            {"Requests": fleet_queries.fated_by(*BY_VERSION, fates=(UpgradeFate.DEPRECATED,))},
            [CLIENT, API, API_VERSION, tables.count("Requests")],
            empty="no request is at a deprecated version, or none was read",
        ),
    ]


def _trend() -> list[panels.Panel]:
    return [
        panels.graph_panel(
            "Requests that would be refused, by software",
            "As owners upgrade their clients, the lines go to nothing.",
            {
                "{{client_software_name}}": fleet_queries.fated_rate(
                    fleet_queries.NAME, fates=(UpgradeFate.REMOVED,)
                )
            },
            unit=panels.REQUESTS_PER_SECOND,
            span=12,
            empty=NOBODY,
        ),
        panels.coloured(
            panels.graph_panel(
                "Requests by fate",
                "All requests by what the release does with their version: it keeps, deprecates or has "
                "removed it. Newer is one above those that it has: a client that negotiates sends a lower "
                "one instead.",
                {"{{fate}}": fleet_queries.fated_rate("fate")},
                unit=panels.REQUESTS_PER_SECOND,
                span=12,
                empty="no request was read in the range",
            ),
            panels.FATE_COLOURS,
        ),
    ]


def _versions() -> panels.Panel:
    return tables.table_panel(
        "Requests by software and version",
        "Every API version that each client software sent over the range, and its fate in the release. "
        "APIs that the schemas lack are left out.",
        {"Requests": fleet_queries.fated_by(*BY_VERSION, "fate")},
        [CLIENT, API, API_VERSION, tables.FATE, tables.count("Requests")],
        empty="no request was read in the range",
    )
