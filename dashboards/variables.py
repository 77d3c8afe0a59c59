"""What all dashboards share: the variables at their top, and the links between them."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    VariableModel,
    VariableRefresh,
)

from dashboards import panels
from streaming.metrics import definitions as metrics

TAG = "kipwatch"


def links() -> builder.DashboardLink:
    """A menu of all dashboards with the tag, which keeps time and variables."""
    return (
        builder.DashboardLink("kipwatch")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def variables() -> list[Builder[VariableModel]]:
    """Data source, installation, rule and client software to choose from: the same on every dashboard."""
    return [
        builder.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _chosen("job", "Job", f"label_values({metrics.BUILD_INFO.name}, job)"),
        _chosen("rule", "Rule", f'label_values({metrics.RULE_CHECKS.name}{{job=~"$job"}}, rule)'),
        _chosen(
            "software",
            "Client software",
            f'label_values({metrics.CONNECTIONS.name}{{job=~"$job"}}, client_software_name)',
        ),
    ]


def _chosen(name: str, label: str, query: str) -> builder.QueryVariable:
    return (
        builder.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(panels.DATA_SOURCE)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
