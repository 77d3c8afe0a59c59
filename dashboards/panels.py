"""The kinds of panels: figures, graphs and timelines, so that all dashboards look and read alike.

Each panel has a title, a description, a unit and a span (24 across). Tables are in `tables`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

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
    VizOrientation,
)

from dashboards import recordings
from dashboards.queries import RANKS, SEEING, SEEN, STEP, Source
from expectations.report.upgrade import NEWER, UpgradeFate
from expectations.rules.base.rule import Verdict
from expectations.rules.catalogue import RULES

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
COUNT = "short"
PACKETS_PER_SECOND = "pps"
CHECKS_PER_SECOND, FRAMES_PER_SECOND, RECORDS_PER_SECOND, REQUESTS_PER_SECOND, WINDOWS_PER_SECOND = (
    "suffix: checks/s",
    "suffix: frames/s",
    "suffix: records/s",
    "suffix: requests/s",
    "suffix: windows/s",
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
UNKNOWN = "#73737a"
"""The background of a figure without data, which is neither good nor bad."""
NO_DATA_SINCE = "time:[no data since] D MMM HH:mm"
"""The unit of the moment since when a figure has no data: Grafana writes dates in formats of moment.js."""
SILENCE = "Z"
"""The name of the query of that moment."""
REFERENCES = "ABCDEF"
"""The names that Grafana gives to the queries of a panel."""
NOT_SCRAPED = "kipwatch is not scraped"
"""What a panel shows while no metric of the query is there."""
TIMELINE_STEP = "30s"
"""With a step shorter than the scrape interval the timeline would have gaps."""

Panel = Builder[model.Panel]
Steps = list[tuple[float, str]]
States = Mapping[int, tuple[str, str]] | Mapping[str, tuple[str, str]]
"""Words and colours of numbers, or of texts."""
# A word in the gaps would be cut by the next bar.
RULE_STATES = {
    recordings.NOT_EXERCISED: (" ", TRANSPARENT),
    recordings.ONLY_UNDECIDED: ("only undecided", PURPLE),
    recordings.CONFORMS: ("conforms", GREEN),
    recordings.COULD_BE_BETTER: ("could be better", AMBER),
    recordings.VIOLATES: ("violates", RED),
}
NOTHING = model.SpecialValueMap(
    options=model.DashboardSpecialValueMapOptions(
        match=model.SpecialValueMatch.NULL, result=model.ValueMappingResult(text="", color=TRANSPARENT)
    )
)
"""The mapping of a missing value in a timeline: without it, the legend has the text of an empty panel."""
LEVELS = dict(zip(RANKS, (RED, AMBER, BLUE, GREY), strict=True))
"""The colours of the levels of findings."""
VERDICT_COLOURS = {Verdict.CONFORMS: GREEN, Verdict.VIOLATES: RED, Verdict.UNDECIDED: PURPLE}
"""The colours of verdicts."""
FATE_COLOURS = {
    str(UpgradeFate.KEPT): GREEN,
    str(UpgradeFate.DEPRECATED): AMBER,
    str(UpgradeFate.REMOVED): RED,
    NEWER: BLUE,
}
"""The colours of what a release does with an API version."""


def stat_panel(
    title: str,
    description: str,
    queries: dict[str, str],
    *,
    unit: str = COUNT,
    steps: Steps | None = None,
    source: Source | None = SEEN,
    span: int,
    empty: str = "",
) -> stat.Panel:
    """Show figures over the dashboard's range. `queries` maps names, shown if there are several, to queries.

    With `steps` a figure judges a state, and its background has the colour of the step; without, it is a
    plain count. A figure that judges is shown while its `source` delivers, and otherwise says since when
    there is no data; one that judges the source itself has none. `empty` is the text without data.
    """
    if steps and source:
        queries = {name: f"({query}) and on () {source.delivers}" for name, query in queries.items()}
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .thresholds(thresholds([(-math.inf, UNKNOWN), *steps] if steps else [(0, GREY)]))
        .color_mode(BigValueColorMode.BACKGROUND if steps else BigValueColorMode.NONE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(options.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value(empty or "no data")
        .height(STAT_HEIGHT)
        .span(span)
    )
    for reference, (name, query) in zip(REFERENCES, queries.items(), strict=False):
        panel.with_target(instant(query).legend_format(name).ref_id(reference))
    if steps and source:
        panel.with_target(instant(source.silent_since).legend_format(" ").ref_id(SILENCE))
        panel.override_by_query(SILENCE, _silence())
    return panel


def names_panel(
    title: str, description: str, query: str, *, legend: str, colour: str, span: int, empty: str
) -> stat.Panel:
    """Show series by name, with their counts in a colour, and `empty` in green if there are none."""
    asked = {legend: query, " ": f"vector(0) unless on () {query}"}
    panel = stat_panel(title, description, asked, steps=[(0, GREEN), (1, colour)], source=SEEING, span=span)
    return (
        panel.color_mode(BigValueColorMode.VALUE)
        .mappings([mapping({0: (empty, GREEN)})])
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .orientation(VizOrientation.HORIZONTAL)
        .text(options.VizTextDisplayOptions().title_size(13).value_size(15))
    )


def levels_panel(description: str, query: str, *, span: int) -> stat.Panel:
    """Show offences by level, each in the colour of the level."""
    panel = stat_panel("Offences by level", description, {"{{level}}": query}, span=span, empty="none")
    for name, colour in LEVELS.items():
        panel.override_by_name(name, fixed(colour))
    return panel.color_mode(BigValueColorMode.VALUE)


def graph_panel(
    title: str, description: str, queries: dict[str, str], *, unit: str = COUNT, span: int, empty: str
) -> timeseries.Panel:
    """Show lines over time. `queries` maps legends to queries."""
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


def stacked_bars(panel: timeseries.Panel) -> timeseries.Panel:
    """Draw the growth in each step as stacked bars. No step is shorter than STEP."""
    return (
        panel.draw_style(GraphDrawStyle.BARS)
        .fill_opacity(80)
        .line_width(0)
        .stacking(options.StackingConfig().mode(StackingMode.NORMAL).group("A"))
        .interval(STEP)
    )


def with_limits(panel: timeseries.Panel, *limits: tuple[float, str]) -> timeseries.Panel:
    """Draw a line in a colour at each limit."""
    return panel.thresholds(thresholds([(0, TRANSPARENT), *limits])).thresholds_style(
        options.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
    )


def coloured(panel: timeseries.Panel, colours: Mapping[Any, str]) -> timeseries.Panel:
    """Draw series in fixed colours, by their names."""
    for name, colour in colours.items():
        panel.override_by_name(str(name), fixed(colour))
    return panel


def with_figures(panel: timeseries.Panel) -> timeseries.Panel:
    """Put a table of last and highest values beside the graph, highest first."""
    legend = _legend(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    return panel.legend(legend.calcs(["lastNotNull", "max"]).sort_by("Max").sort_desc(True))


def rule_timeline(title: str, query: str, *, height: int, empty: str) -> statetimeline.Panel:
    """Draw one bar for each rule, coloured by its state.

    All bars are on one page: from 11.2.1 on, Grafana would show 20.
    """
    return (
        statetimeline.Panel()
        .title(title)
        .description(
            "The most severe state of each rule in the five minutes before. Where a bar is missing the rule "
            f"was not exercised. Drawn from the recording rule {recordings.RULE_STATE}."
        )
        .datasource(DATA_SOURCE)
        .unit(COUNT)
        .mappings([mapping(RULE_STATES), NOTHING])
        # With thresholds, the default, the legend would name those and not the states.
        .color_scheme(builder.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(GREY))
        .show_value(VisibilityMode.AUTO)
        .legend(_legend(LegendDisplayMode.LIST))
        .per_page(len(RULES))
        .interval(TIMELINE_STEP)
        .no_value(empty)
        .with_target(over_time(query).legend_format("{{rule}}"))
        .height(height)
        .span(24)
    )


def instant(query: str) -> prometheus.Dataquery:
    """Query once, at the end of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).instant().ref_id("A")


def over_time(query: str) -> prometheus.Dataquery:
    """Query at every step of the range."""
    return prometheus.Dataquery().datasource(DATA_SOURCE).expr(query).range().ref_id("A")


def thresholds(steps: Sequence[tuple[float, str]]) -> builder.ThresholdsConfig:
    """Set colours from values upwards. The first step begins at minus infinity, whatever its value."""
    (_, lowest), *higher = steps
    colours = [model.Threshold(value=None, color=lowest)]
    colours += [model.Threshold(value=value, color=colour) for value, colour in higher]
    return builder.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(colours)


def mapping(states: States) -> model.ValueMap:
    """Show numbers or texts as coloured words."""
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


def _silence() -> list[model.DynamicConfigValue]:
    return [*unit(NO_DATA_SINCE), *fixed(UNKNOWN)]


def _legend(mode: LegendDisplayMode) -> options.VizLegendOptions:
    return options.VizLegendOptions().show_legend(True).display_mode(mode).placement(LegendPlacement.BOTTOM)
