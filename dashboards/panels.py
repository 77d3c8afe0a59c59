"""Figures, graphs and timelines, so that all dashboards look and read alike.

Each panel has a title, a description, a unit and a span (24 across).
"""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    DataSourceRef,
    GraphDrawStyle,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VisibilityMode,
)

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
COUNT = "short"
PACKETS_PER_SECOND = "pps"
CHECKS_PER_SECOND, FRAMES_PER_SECOND, RECORDS_PER_SECOND, REQUESTS_PER_SECOND = (
    "suffix: checks/s",
    "suffix: frames/s",
    "suffix: records/s",
    "suffix: requests/s",
)
BYTES = "bytes"
MOMENT = "dateTimeFromNow"
SECONDS = "s"
SHARE = "percentunit"
BYTES_PER_SECOND = "Bps"
STAT_HEIGHT = 4
GRAPH_HEIGHT = 9
GREY, BLUE, GREEN, AMBER, RED, PURPLE = "text", "blue", "green", "orange", "red", "purple"
TRANSPARENT = "transparent"
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
    steps: Steps | None = None,
    span: int,
    empty: str = "",
) -> stat.Panel:
    """Figures over the dashboard's range. `queries` maps a name, shown when there are several, to its query.

    With `steps` the figure judges a state and its background has their colours; without, it is a plain count.
    `empty` is what the panel says when there is nothing to show.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .thresholds(thresholds(steps or [(0, GREY)]))
        .color_mode(BigValueColorMode.BACKGROUND if steps else BigValueColorMode.NONE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(options.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value(empty or "no data")
        .height(STAT_HEIGHT)
        .span(span)
    )
    for reference, (name, query) in zip(REFERENCES, queries.items(), strict=False):
        panel.with_target(instant(query).legend_format(name).ref_id(reference))
    return panel


def names_panel(
    title: str, description: str, query: str, *, legend: str, colour: str, span: int, empty: str
) -> stat.Panel:
    """Series by their names, with their counts in a colour. Without any the text has no colour."""
    panel = stat_panel(title, description, {legend: query}, unit=COUNT, span=span, empty=empty)
    return (
        panel.color_mode(BigValueColorMode.VALUE)
        .thresholds(thresholds([(0, GREY), (1, colour)]))
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .text(options.VizTextDisplayOptions().title_size(13).value_size(18))
    )


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
        .legend(_legend(LegendDisplayMode.LIST))
        .height(GRAPH_HEIGHT)
        .span(span)
    )
    for reference, (legend, query) in zip(REFERENCES, queries.items(), strict=False):
        panel.with_target(over_time(query).legend_format(legend).ref_id(reference))
    return panel


def stacked_bars(panel: timeseries.Panel, step: str) -> timeseries.Panel:
    """Draw a growth for each step as bars, whose heights add up; no step is shorter than `step`."""
    return (
        panel.draw_style(GraphDrawStyle.BARS)
        .fill_opacity(80)
        .line_width(0)
        .stacking(options.StackingConfig().mode(StackingMode.NORMAL).group("A"))
        .interval(step)
    )


def with_limits(panel: timeseries.Panel, *limits: tuple[float, str]) -> timeseries.Panel:
    """Draw a line for each limit, from which on things are as bad as its colour says."""
    return panel.thresholds(thresholds([(0, TRANSPARENT), *limits])).thresholds_style(
        options.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
    )


def with_figures(panel: timeseries.Panel) -> timeseries.Panel:
    """Put a table of last and highest values beside the lines, highest first."""
    legend = _legend(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    return panel.legend(legend.calcs(["lastNotNull", "max"]).sort_by("Max").sort_desc(True))


def timeline_panel(
    title: str,
    description: str,
    query: str,
    *,
    legend: str,
    states: dict[int, tuple[str, str]],
    height: int,
    lines: int,
    empty: str,
) -> statetimeline.Panel:
    """One bar a series, coloured by state. `states` maps a value to its text and colour.

    `lines` is how many series there may be. All are on one page: from 11.2.1 on, Grafana would show 20.
    """
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(COUNT)
        .mappings([mapping(states)])
        .show_value(VisibilityMode.NEVER)
        .legend(_legend(LegendDisplayMode.LIST))
        .per_page(lines)
        .interval(TIMELINE_STEP)
        .no_value(empty)
        .with_target(over_time(query).legend_format(legend))
        .height(height)
        .span(24)
    )


def instant(query: str) -> prometheus.Dataquery:
    """Ask once, at the end of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).instant().ref_id("A")


def over_time(query: str) -> prometheus.Dataquery:
    """Ask at every step of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).range().ref_id("A")


def thresholds(steps: Sequence[tuple[float, str]]) -> builder.ThresholdsConfig:
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


def unit(name: str) -> list[model.DynamicConfigValue]:
    """Give a series a unit of its own."""
    return [model.DynamicConfigValue(id_val="unit", value=name)]


def fixed(colour: str) -> list[model.DynamicConfigValue]:
    """Give a series the same colour wherever it is drawn."""
    return [model.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})]


def _legend(mode: LegendDisplayMode) -> options.VizLegendOptions:
    return options.VizLegendOptions().show_legend(True).display_mode(mode).placement(LegendPlacement.BOTTOM)
