"""What all dashboards share: the variables at their top, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    VariableHide,
    VariableModel,
    VariableOption,
    VariableRefresh,
)

from dashboards import panels, queries
from expectations.rule import Level, Rule
from streaming import metrics

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


def variables(rules: Iterable[Rule]) -> list[Builder[VariableModel]]:
    """Data source, rule and client software to choose from, and the hidden list of violation rules."""
    software = f"label_values({metrics.CONNECTIONS.name}, client_software_name)"
    return [
        builder.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _chosen("rule", "Rule", f"label_values({metrics.RULE_CHECKS.name}, rule)"),
        _chosen("software", "Client software", software),
        _violation_rules(queries.ids_of_level(rules, Level.VIOLATION)),
    ]


def _violation_rules(ids: str) -> builder.CustomVariable:
    return (
        builder.CustomVariable("violation_rules")
        .description("The rules of level violation, as a regular expression.")
        .values(ids)
        .current(VariableOption(selected=True, text=ids, value=ids))
        .hide(VariableHide.HIDE_VARIABLE)
    )


def _chosen(name: str, label: str, query: str) -> builder.QueryVariable:
    return (
        builder.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(panels.DATA_SOURCE)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
