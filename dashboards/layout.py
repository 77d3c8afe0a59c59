"""Puts panels together to a dashboard: title, rows, and what all dashboards share."""

from __future__ import annotations

import itertools

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import variables
from dashboards.panels import Panel
from dashboards.variables import Variables

Rows = dict[str, list[Panel]]


def dashboard(
    uid: str, title: str, description: str, chosen: Variables, rows: Rows, *, collapsed: Rows | None = None
) -> builder.Dashboard:
    """Return a dashboard of rows with titles; those that are `collapsed` come last.

    `chosen` are its own variables, beside data source and job. Panels keep their order and are numbered
    throughout.
    """
    made = (
        builder.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([variables.TAG])
        .readonly()
        .time("now-6h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(variables.links())
        .variables([*variables.everywhere(), *chosen])
    )
    for annotation in variables.annotation_queries():
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
