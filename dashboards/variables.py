"""What dashboards share: the variables at their top, the annotations, and the links between them."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    VariableModel,
    VariableRefresh,
)

from dashboards import panels, queries
from dashboards.promql import none_of, select
from streaming.metrics import definitions as metrics

TAG = "kipwatch"
Variables = Sequence[Builder[VariableModel]]


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


def everywhere() -> Variables:
    """Data source and installation, which every query of every dashboard obeys."""
    return [
        builder.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _any_of(_chosen("job", "Job", f"label_values({metrics.BUILD_INFO.name}, job)")),
    ]


def rules() -> builder.QueryVariable:
    """Rules to choose from, several at once or all."""
    return _any_of(one_rule())


def one_rule() -> builder.QueryVariable:
    """One rule to choose; the first one where a link names none."""
    return _chosen("rule", "Rule", f"label_values({select(metrics.RULE_CHECKS, queries.JOB)}, rule)")


def software() -> builder.QueryVariable:
    """Names of client software: of open connections, and of those that offended and are gone."""
    named = f'{{__name__=~"{metrics.CONNECTIONS.name}|{metrics.FINDINGS.name}", {queries.JOB}}}'
    return _any_of(_chosen("software", "Client software", f"label_values({named}, client_software_name)"))


def requesting() -> builder.QueryVariable:
    """Names of client software that sent requests."""
    sent = select(metrics.REQUESTS, queries.JOB)
    return _any_of(_chosen("software", "Client software", f"label_values({sent}, client_software_name)"))


def clusters() -> builder.QueryVariable:
    """The clusters whose brokers are known."""
    known = select(metrics.BROKERS, queries.JOB)
    return _any_of(_chosen("cluster", "Cluster", f"label_values({known}, cluster)"))


def instances() -> builder.QueryVariable:
    """The feeders to choose from, by the address at which they are scraped."""
    captured = select(metrics.CAPTURE_PACKETS, queries.JOB)
    return _any_of(_chosen("instance", "Feeder", f"label_values({captured}, instance)"))


def annotation_queries() -> list[builder.AnnotationQuery]:
    """What happened meanwhile: alerts that fired, restarts, and brokers that advertise other versions."""
    watchdog = none_of("alertname", ["KipwatchWatchdog"])
    return [
        _annotation(
            "Firing alerts",
            f"max by (alertname, rule, client_software_name) ({queries.firing(watchdog)})",
            "{{alertname}}",
            "{{rule}} {{client_software_name}}",
            panels.RED,
        ),
        _annotation(
            "Restarts of the query",
            queries.restarts(metrics.RULE_CHECKS),
            "The query was started anew",
            "{{job}} {{instance}}",
            panels.BLUE,
        ),
        _annotation(
            "Restarts of feeders",
            queries.restarts(metrics.CAPTURE_PACKETS),
            "A feeder was started anew",
            "{{job}} {{instance}}",
            panels.PURPLE,
        ),
        _annotation(
            "Ranges changed",
            queries.RANGES_CHANGED,
            "Other versions are advertised",
            "{{listener}}",
            panels.AMBER,
        ),
    ]


def _annotation(name: str, query: str, title: str, text: str, colour: str) -> builder.AnnotationQuery:
    return (
        builder.AnnotationQuery()
        .name(name)
        .datasource(panels.DATA_SOURCE)
        .enable(True)
        .icon_color(colour)
        .expr(query)
        .step(queries.STEP)
        .title_format(title)
        .text_format(text)
    )


def _any_of(variable: builder.QueryVariable) -> builder.QueryVariable:
    return variable.multi(True).include_all(True).all_value(".+")


def _chosen(name: str, label: str, query: str) -> builder.QueryVariable:
    return (
        builder.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(panels.DATA_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
