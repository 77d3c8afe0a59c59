"""The layout of a dashboard: rows of panels, and what all dashboards share.

They share the variables at their top, the annotations, and a menu that leads from one to the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableModel,
    VariableRefresh,
)

from dashboards import panels, queries
from dashboards.alert import Watches
from dashboards.panels import Panel
from dashboards.promql import select
from streaming.metrics import definitions as metrics

TAG = "kipwatch"
Variables = Sequence[Builder[VariableModel]]
Rows = dict[str, list[Panel]]


def _links() -> builder.DashboardLink:
    """Return a menu of all dashboards with the tag. It keeps time and variables."""
    return (
        builder.DashboardLink("kipwatch")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _everywhere() -> Variables:
    """Return the variables of every query of every dashboard: data source and installation."""
    return [
        builder.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _any_of(_chosen("job", "Job", f"label_values({metrics.BUILD_INFO.name}, job)")),
    ]


def choose_rules() -> builder.QueryVariable:
    """Choose rules: one, several or all."""
    return _any_of(choose_rule())


def choose_rule() -> builder.QueryVariable:
    """Choose one rule, the first one if a link names none."""
    return _chosen("rule", "Rule", f"label_values({select(metrics.RULE_CHECKS, queries.JOB)}, rule)")


def choose_software() -> builder.QueryVariable:
    """Choose client software: of open connections, of requests, and of offences."""
    counted = "|".join(metric.name for metric in (metrics.CONNECTIONS, metrics.REQUESTS, metrics.FINDINGS))
    named = f'{{__name__=~"{counted}", {queries.JOB}}}'
    return _any_of(_chosen("software", "Client software", f"label_values({named}, client_software_name)"))


def choose_clusters() -> builder.QueryVariable:
    """Choose clusters: of brokers that are known, and of offences."""
    named = f'{{__name__=~"{metrics.BROKERS.name}|{metrics.FINDINGS.name}", {queries.JOB}}}'
    chosen = _any_of(_chosen("cluster", "Cluster", f"label_values({named}, cluster)"))
    return chosen.all_value(queries.ALSO_NONE)


def choose_owners() -> builder.QueryVariable:
    """Choose owners of clients that offended."""
    found = select(metrics.FINDINGS, queries.JOB)
    chosen = _any_of(_chosen("owner", "Owner", f"label_values({found}, owner)"))
    return chosen.all_value(queries.ALSO_NONE)


def choose_feeders() -> builder.QueryVariable:
    """Choose feeders, by the address at which they are scraped."""
    captured = select(metrics.CAPTURE_PACKETS, queries.JOB)
    return _any_of(_chosen("instance", "Feeder", f"label_values({captured}, instance)"))


def annotation_queries(watched: Sequence[Watches] = tuple(Watches)) -> list[builder.AnnotationQuery]:
    """Return the annotations: where alerts begin and end, restarts, and changes of advertised versions."""
    about = "{{rule}} {{cluster}} {{owner}} {{client_software_name}} {{instance}}"
    return [
        _annotation("Alerts begin", queries.alerts_begin(watched), "{{alertname}} begins", about, panels.RED),
        _annotation("Alerts end", queries.alerts_end(watched), "{{alertname}} ends", about, panels.GREEN),
        _annotation(
            "Restarts of the query",
            queries.restarts(metrics.RULE_CHECKS),
            "The query was started anew",
            "{{job}} {{instance}}",
            panels.GREY,
        ),
        _annotation(
            "Restarts of feeders",
            queries.restarts(metrics.CAPTURE_PACKETS),
            "A feeder was started anew",
            "{{job}} {{instance}}",
            panels.GREY,
        ),
        _annotation(
            "Ranges changed",
            queries.RANGES_CHANGED,
            "Other versions are advertised",
            "{{listener}}",
            panels.GREY,
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


def laid_out(
    uid: str,
    title: str,
    description: str,
    chosen: Variables,
    rows: Rows,
    *,
    collapsed: Rows | None = None,
    watched: Sequence[Watches] = tuple(Watches),
) -> builder.Dashboard:
    """Build a dashboard of rows with titles, the `collapsed` rows last.

    `chosen` are its variables beside data source and job. Alerts on what is `watched` are marked. Panels are
    numbered in their order.
    """
    made = (
        builder.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .time("now-6h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_links())
        .variables([*_everywhere(), *chosen])
    )
    for annotation in annotation_queries(watched):
        made.annotation(annotation)
    identifiers = itertools.count(1)
    for name, row in rows.items():
        made.with_row(builder.Row(name).id(next(identifiers)))
        for panel in row:
            made.with_panel(panel.id(next(identifiers)))
    for name, row in (collapsed or {}).items():
        folded = builder.Row(name).id(next(identifiers))
        for panel in row:
            folded.with_panel(panel.id(next(identifiers)))
        made.with_row(folded)
    return made
