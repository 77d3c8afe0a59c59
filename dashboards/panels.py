"""The kinds of panel that every dashboard is made of, so that all of them look and read alike.

Each panel has a title, a description, a unit and a span (24 across); a stat has thresholds.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    DataSourceRef,
    LegendDisplayMode,
    LegendPlacement,
    VisibilityMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
COUNT = "short"
PER_SECOND = "cps"
BYTES = "bytes"
MOMENT = "dateTimeFromNow"
SECONDS = "s"
SHARE = "percentunit"
BYTES_PER_SECOND = "Bps"
STAT_HEIGHT = 4
GRAPH_HEIGHT = 9
GREY, BLUE, GREEN, AMBER, RED = "text", "blue", "green", "orange", "red"
REFERENCES = "ABCDEF"
"""The names of a panel's queries, as Grafana gives them."""
TIMELINE_STEP = "30s"
"""A finer step than the scrape interval would tear the timeline to confetti."""

Panel = Builder[model.Panel]
Steps = list[tuple[float, str]]


def stat_panel(
    title: str,
    description: str,
    queries: dict[str, str],
    *,
    unit: str,
    steps: Steps,
    span: int,
    empty: str = "",
) -> stat.Panel:
    """Figures over the dashboard's range. `queries` maps a name, shown when there are several, to its query.

    `empty` is what the panel says when there is nothing to show.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .thresholds(thresholds(steps))
        .color_mode(BigValueColorMode.BACKGROUND)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(options.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value(empty or "no data")
        .height(STAT_HEIGHT)
        .span(span)
    )
    for reference, (name, query) in zip(REFERENCES, queries.items(), strict=False):
        panel.with_target(instant(query).legend_format(name).ref_id(reference))
    return panel


def graph_panel(
    title: str, description: str, queries: dict[str, str], *, unit: str, span: int, empty: str
) -> timeseries.Panel:
    """Lines over time. `queries` maps a legend to its query."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .min(0)
        .no_value(empty)
        .legend(
            options.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        .height(GRAPH_HEIGHT)
        .span(span)
    )
    for reference, (legend, query) in zip(REFERENCES, queries.items(), strict=False):
        panel.with_target(over_time(query).legend_format(legend).ref_id(reference))
    return panel


def timeline_panel(
    title: str,
    description: str,
    query: str,
    *,
    legend: str,
    states: dict[int, tuple[str, str]],
    height: int,
) -> statetimeline.Panel:
    """One bar a series, coloured by state. `states` maps a value to its text and colour."""
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(COUNT)
        .mappings([mapping(states)])
        .show_value(VisibilityMode.NEVER)
        .interval(TIMELINE_STEP)
        .no_value("no data: is dashboards/generated/alerts.yml loaded by Prometheus?")
        .with_target(over_time(query).legend_format(legend))
        .height(height)
        .span(24)
    )


def table_panel(
    title: str, description: str, queries: dict[str, str], *, span: int, empty: str
) -> table.Panel:
    """Rows joined by their labels, a column a query. `queries` maps a column to its query."""
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(COUNT)
        .no_value(empty)
        .with_transformation(_transformation("merge", {}))
        .with_transformation(_transformation("organize", _columns(list(queries))))
        .height(GRAPH_HEIGHT)
        .span(span)
    )
    for reference, query in zip(REFERENCES, queries.values(), strict=False):
        panel.with_target(instant(query).format(PromQueryFormat.TABLE).ref_id(reference))
    return panel


def instant(query: str) -> prometheus.Dataquery:
    """Ask once, at the end of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).instant().ref_id("A")


def over_time(query: str) -> prometheus.Dataquery:
    """Ask at every step of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).range().ref_id("A")


def thresholds(steps: Steps) -> builder.ThresholdsConfig:
    """Colours from a value upwards; the first step's value is minus infinity, whatever it says."""
    (_, lowest), *higher = steps
    colours = [model.Threshold(value=None, color=lowest)]
    colours += [model.Threshold(value=value, color=colour) for value, colour in higher]
    return builder.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(colours)


def mapping(states: dict[int, tuple[str, str]]) -> model.ValueMap:
    """Show values as coloured words."""
    return model.ValueMap(
        options={
            str(value): model.ValueMappingResult(text=text, color=colour, index=place)
            for place, (value, (text, colour)) in enumerate(states.items())
        }
    )


def link(title: str, url: str) -> list[model.DynamicConfigValue]:
    """Make the cells of a column lead somewhere."""
    return [model.DynamicConfigValue(id_val="links", value=[{"title": title, "url": url}])]


def column(unit: str) -> list[model.DynamicConfigValue]:
    """Give a column a unit of its own."""
    return [model.DynamicConfigValue(id_val="unit", value=unit)]


def coloured(states: dict[int, tuple[str, str]], steps: Steps) -> list[model.DynamicConfigValue]:
    """Show some values of a column as words, and all of them in colour."""
    return [
        model.DynamicConfigValue(id_val="mappings", value=[mapping(states)]),
        model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        model.DynamicConfigValue(id_val="thresholds", value=thresholds(steps).build()),
    ]


def _columns(names: list[str]) -> dict[str, object]:
    # One query's value column is called "Value", several are told apart by their reference.
    values = ["Value"] if len(names) == 1 else [f"Value #{reference}" for reference in REFERENCES]
    return {"excludeByName": {"Time": True}, "renameByName": dict(zip(values, names, strict=False))}


def _transformation(identifier: str, settings: dict[str, object]) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=identifier, options=settings)
