"""Tables of a dashboard: rows joined by labels, columns with headers, units and widths of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import links, panels
from dashboards.panels import AMBER, BLUE, DATA_SOURCE, GREY, RED, REFERENCES
from dashboards.queries import RANKS, SEVERITIES
from dashboards.recordings import NOT_EXERCISED

TEXT = "string"
"""The unit of labels. With a unit of numbers Grafana would show version 2.10 as 2.1."""
MISSING = "\u2013"
BEFORE_RANGE = {0: ("before the range", GREY)}
"""The text for the time of a first offence before the range."""

RULE_WIDTH = 312
"""In pixels. No ID of a rule is cut, up to 41 characters."""

Properties = list[model.DynamicConfigValue]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. `source` is a label or the name of a query; `empty` is shown where a row has no value.

    Texts that may grow share the width that others leave, and are wrapped where a name is longer.
    """

    source: str
    header: str
    width: int
    unit: str = TEXT
    empty: str = MISSING
    leads: str = ""
    is_hidden: bool = False
    grows: bool = True
    states: panels.States | None = None

    def properties(self) -> Properties:
        """Return Grafana's properties of the column."""
        width = "custom.minWidth" if self.unit == TEXT and self.grows else "custom.width"
        said = {"unit": self.unit, "noValue": self.empty, width: self.width}
        if self.is_hidden:
            said["custom.hidden"] = True
        if self.leads:
            said["links"] = [{"title": f"This {self.header.lower()}", "url": self.leads}]
        if self.unit == TEXT and self.grows:
            said["custom.cellOptions"] = {"type": "auto", "wrapText": True}
        if self.states:
            said["mappings"] = [panels.mapping(self.states)]
            said["custom.cellOptions"] = {"type": "color-text"}
        return [model.DynamicConfigValue(id_val=name, value=value) for name, value in said.items()]


CLIENT = TableColumn("client_software_name", "Client", 120, leads=links.TO_CLIENT)
VERSION = TableColumn("client_software_version", "Version", 80)
CLUSTER = TableColumn("cluster", "Cluster", 80)
OWNER = TableColumn("owner", "Owner", 140, leads=links.TO_OWNER)
LISTENER = TableColumn("listener", "Listener", 120)
OWNED = TableColumn("owner", "Owner", 80)
RULE = TableColumn("rule", "Rule", RULE_WIDTH, leads=links.TO_RULE, grows=False)
_RANKED = {rank: (name, panels.LEVELS[name]) for name, rank in RANKS.items()}
LEVEL = TableColumn("Level", "Level", 90, states=_RANKED, unit="none")
API = TableColumn("api", "API", 250)
API_VERSION = TableColumn("version", "Version", 80)
_FATES = {fate: (fate, colour) for fate, colour in panels.FATE_COLOURS.items()}
FATE = TableColumn("fate", "At the release", 120, states=_FATES)
PROTOCOL = TableColumn("protocol", "Protocol", 100)
_LEVELS = {name: (name, colour) for name, colour in panels.LEVELS.items()}
LEVEL_NAME = TableColumn("level", "Level", 110, states=_LEVELS)
LOWEST = TableColumn("lowest", "Lowest", 80)
HIGHEST = TableColumn("highest", "Highest", 80)
VERSIONS = TableColumn("versions", "Versions", 100, grows=False)
FEATURES = TableColumn("features", "Features", 100, grows=False)
FIRST = TableColumn("First", "First", 137, unit=panels.MOMENT, states=BEFORE_RANGE)
_COLOURS = dict(zip(SEVERITIES, (RED, AMBER, BLUE), strict=True))
_SEVERE = {rank: (str(name), _COLOURS[rank]) for rank, name in SEVERITIES.items()}
SEVERITY = TableColumn("Severity", "Severity", 105, states=_SEVERE, unit="none")
SINCE = TableColumn("Since", "Since", 137, unit=panels.MOMENT)
SUBJECT = TableColumn(links.SUBJECT, "Subject", 0, is_hidden=True)
"""What the link of an alert leads to."""
WHAT_TO_DO = (
    TableColumn(links.RUNBOOK, "Runbook", 100, leads=links.TO_PAGE, grows=False),
    TableColumn(links.PAGE, "Page", 0, is_hidden=True),
)
LAST = TableColumn("Last", "Last", 137, unit=panels.MOMENT)


def count(name: str, *, empty: str = "0") -> TableColumn:
    """A column of counts, 0 where nothing was counted. Its header and an arrow beside it are not cut."""
    return TableColumn(name, name, 40 + 8 * len(name), unit=panels.COUNT, empty=empty)


def checked(name: str) -> TableColumn:
    """A column of decided checks, with a text where there were none in the range."""
    return TableColumn(
        name, name, 160, unit=panels.COUNT, states={NOT_EXERCISED: ("not in this range", GREY)}, empty="0"
    )


def table_panel(
    title: str,
    description: str,
    queries: dict[str, str],
    columns: Sequence[TableColumn],
    *,
    span: int = 24,
    height: int = panels.GRAPH_HEIGHT,
    empty: str,
    sort: Sequence[str] | None = None,
) -> table.Panel:
    """Join the results of several queries by their labels. `queries` maps sources of columns to queries.

    Labels without a column are left out. `sort` names headers, highest values first: by default those of
    all counts.
    """
    if sort is None:
        sort = [column.header for column in columns if column.unit == panels.COUNT]
    names = _names(queries, columns)
    order: dict[str, object] = {
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": {name: column.header for name, column in zip(names, columns, strict=True)},
    }
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(TEXT)
        .thresholds(panels.thresholds([(0, GREY)]))
        .no_value(empty)
        .with_transformation(_transformation("merge", {}))
        .with_transformation(_transformation("filterFieldsByName", {"include": {"names": names}}))
        .with_transformation(_transformation("organize", order))
        .sort_by([options.TableSortByFieldState().display_name(header).desc(True) for header in sort])
        .height(height)
        .span(span)
    )
    for column in columns:
        panel.override_by_name(column.header, column.properties())
    for reference, query in zip(REFERENCES, queries.values(), strict=False):
        panel.with_target(panels.instant(query).format(PromQueryFormat.TABLE).ref_id(reference))
    return panel


def matrix_panel(
    title: str, description: str, query: str, *, row: str, column: str, cell: str, header: str, empty: str
) -> table.Panel:
    """Show a label of each series in the row and the column that two others of its labels name.

    `header` is that of the rows' names.
    """
    named: dict[str, object] = {
        "rowField": row,
        "columnField": column,
        "valueField": cell,
        "emptyValue": "empty",
    }
    renamed: dict[str, object] = {"renameByName": {f"{row}\\{column}": header}}
    return (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(TEXT)
        .thresholds(panels.thresholds([(0, GREY)]))
        .no_value(empty)
        .with_transformation(_transformation("groupingToMatrix", named))
        .with_transformation(_transformation("organize", renamed))
        .with_target(panels.instant(query).format(PromQueryFormat.TABLE))
        .override_by_name(header, TableColumn(row, header, 260, grows=False).properties())
        .height(panels.GRAPH_HEIGHT)
        .span(24)
    )


def _names(queries: dict[str, str], columns: Sequence[TableColumn]) -> list[str]:
    """Return what Grafana calls the columns."""
    # The values of a single query are "Value", those of several are called by their references.
    values = ["Value"] if len(queries) == 1 else [f"Value #{reference}" for reference in REFERENCES]
    fields = dict(zip(queries, values, strict=False))
    return [fields.get(column.source, column.source) for column in columns]


def _transformation(identifier: str, settings: dict[str, object]) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=identifier, options=settings)
