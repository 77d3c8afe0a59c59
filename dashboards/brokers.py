"""The Brokers dashboard: what brokers advertise, and whether those of a cluster advertise the same."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import fleet_queries, layout, links, panels, tables
from dashboards.panels import AMBER, GREEN
from dashboards.tables import API, CLUSTER, FEATURES, HIGHEST, LISTENER, LOWEST, VERSIONS

BROKER_WIDTH = 400
"""In pixels. The name of a pod in a headless service is not cut."""
NO_BROKER = "no client has asked a broker for its versions, or kipwatch is not scraped"


def dashboard() -> builder.Dashboard:
    """Build the dashboard."""
    return layout.laid_out(
        links.BROKERS,
        "Kafka protocol: brokers",
        "What brokers advertise: versions (KIP-35) and features (KIP-584). Equal ones have one ID.",
        [layout.choose_clusters()],
        {
            "Do all offer the same?": _differences(),
            "When did that change?": [_changes()],
            "What do they offer?": _offers(),
        },
    )


def _differences() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Brokers",
            "How many broker addresses answered a client since kipwatch was started.",
            {"brokers": fleet_queries.BROKER_COUNT},
            span=8,
        ),
        panels.stat_panel(
            "Different versions",
            "How many different lists of versions they advertise. More than one in a cluster is normal "
            "amid an upgrade, and a mistake for long.",
            {"lists": fleet_queries.OFFERS},
            steps=[(0, GREEN), (2, AMBER)],
            span=8,
        ),
        panels.stat_panel(
            "APIs that differ",
            "How many APIs not all brokers offer in the same versions.",
            {"APIs": fleet_queries.DIFFERENT_COUNT},
            steps=[(0, GREEN), (1, AMBER)],
            span=8,
        ),
        tables.table_panel(
            "What each broker advertises",
            "Each broker address with the IDs of what it advertised last: equal IDs stand for equal lists.",
            {"Known": fleet_queries.BROKERS},
            [
                CLUSTER,
                LISTENER,
                tables.TableColumn("broker", "Broker", BROKER_WIDTH, grows=False),
                VERSIONS,
                FEATURES,
            ],
            empty=NO_BROKER,
        ),
        tables.matrix_panel(
            "Where brokers differ",
            "The versions of each API that not all brokers offer alike: a column for the brokers that "
            "offer the same, named by one of them and by how many they are. The table above names all.",
            fleet_queries.DIFFERENT,
            row="api",
            column="brokers",
            cell="range",
            header="API",
            empty="no API differs, or kipwatch is not scraped",
        ),
    ]


def _changes() -> panels.Panel:
    graph = panels.graph_panel(
        "Changed versions",
        "How often brokers of a listener advertised versions that they had not advertised before.",
        {"{{listener}}": fleet_queries.CHANGES},
        span=24,
        empty="no broker has changed its versions, or kipwatch is not scraped",
    )
    return panels.stacked_bars(graph)


def _offers() -> list[panels.Panel]:
    return [
        tables.table_panel(
            "Advertised features",
            "The features that brokers support, and those that the cluster has finalized, with their levels.",
            {"Known": fleet_queries.FEATURES},
            [
                tables.TableColumn("feature", "Feature", 250),
                tables.TableColumn("kind", "Kind", 100),
                LOWEST,
                HIGHEST,
                FEATURES,
            ],
            empty=NO_BROKER,
        ),
        tables.table_panel(
            "Advertised versions",
            "The versions of each API that brokers offer.",
            {"Known": fleet_queries.RANGES},
            [API, LOWEST, HIGHEST, VERSIONS],
            height=2 * panels.GRAPH_HEIGHT,
            empty=NO_BROKER,
        ),
    ]
