"""The Groups dashboard: the protocols of groups, their versions, and members that went silently."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import fleet_queries, layout, links, panels, tables
from dashboards.panels import AMBER, GREEN
from dashboards.tables import API, API_VERSION, CLIENT, RULE

NO_HEARTBEAT = "no group member sent a heartbeat in the range"


def dashboard() -> builder.Dashboard:
    """Build the dashboard, on consumer, share and streams groups."""
    return layout.laid_out(
        links.GROUPS,
        "Kafka protocol: groups",
        "Group members by the protocol of their heartbeats: classic, KIP-848, KIP-932 or KIP-1071.",
        [layout.choose_software(), layout.choose_clusters(), layout.choose_owners()],
        {
            "Which protocols do groups speak?": _protocols(),
            "Who speaks which version?": [_versions()],
            "What do members do wrong?": [_offences()],
        },
    )


def _protocols() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Heartbeats of the new protocols",
            "The share of heartbeats over the range that is not of the classic protocol (KIP-848). It is "
            "not the share of members, whose intervals differ: the archive counts those.",
            {"share": fleet_queries.NEW_PROTOCOL_SHARE},
            unit=panels.SHARE,
            span=8,
            empty="no heartbeat",
        ),
        panels.stat_panel(
            "Client software with classic groups",
            "How many names of client software sent heartbeats of the classic protocol over the range.",
            {"software": fleet_queries.CLASSIC_CLIENTS},
            span=8,
        ),
        panels.stat_panel(
            "Ghosts",
            "Members that joined, never left and fell silent, over the range: their partitions wait for "
            "the end of the session. The topic kipwatch.findings and the archive name them.",
            {"ghosts": fleet_queries.GHOSTS},
            steps=[(0, GREEN), (1, AMBER)],
            span=8,
        ),
        panels.graph_panel(
            "Heartbeats by protocol",
            "Heartbeats of each protocol. A group that is migrated leaves one line and joins another.",
            {"{{protocol}}": fleet_queries.HEARTBEATS_BY_PROTOCOL},
            unit=panels.REQUESTS_PER_SECOND,
            span=12,
            empty=NO_HEARTBEAT,
        ),
        panels.graph_panel(
            "Classic heartbeats by software",
            "Who is left to migrate.",
            {"{{client_software_name}}": fleet_queries.CLASSIC_BY_CLIENT},
            unit=panels.REQUESTS_PER_SECOND,
            span=12,
            empty="no heartbeat of the classic protocol in the range",
        ),
    ]


def _versions() -> panels.Panel:
    return tables.table_panel(
        "Heartbeats by software and version",
        "From version 1 of ConsumerGroupHeartbeat on, members name themselves (KIP-1082).",
        {"Heartbeats": fleet_queries.HEARTBEATS_BY_CLIENT},
        [CLIENT, tables.PROTOCOL, API, API_VERSION, tables.count("Heartbeats")],
        empty=NO_HEARTBEAT,
    )


def _offences() -> panels.Panel:
    return tables.table_panel(
        "Offences against KIP-1082",
        "What was found of member IDs over the range, ghosts among it.",
        {"Offences": fleet_queries.offences_by(fleet_queries.NAME, "rule", "level", of="kip1082/.+")},
        [CLIENT, RULE, tables.LEVEL_NAME, tables.count("Offences")],
        empty="no offence in the range",
    )
