"""Tables of a dashboard: rows joined by labels, columns with headers, units and widths of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import links, panels
from dashboards.offence_queries import RANKS
from dashboards.panels import AMBER, BLUE, DATA_SOURCE, GREY, RED, REFERENCES
from dashboards.recordings import NOT_EXERCISED

TEXT = "string"
"""The unit of labels. With a number's unit Grafana reads a label as a number: version 2.10 becomes 2.1."""
MISSING = "\u2013"
LEVELS = dict(zip(RANKS, (RED, AMBER, BLUE, GREY), strict=True))
"""The colours of the levels of findings."""

BEFORE_RANGE = {0: ("before the range", GREY)}
"""What stands for the time of a first offence that was earlier."""

Properties = list[model.DynamicConfigValue]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `source` is a label or the name of a query, `empty` is shown where a row has no value."""

    source: str
    header: str
    width: int
    unit: str = TEXT
    empty: str = MISSING
    leads: str = ""
    states: dict[int, tuple[str, str]] | None = None

    def properties(self) -> Properties:
        """What Grafana must know about the column."""
        said = {"unit": self.unit, "noValue": self.empty, "custom.width": self.width}
        if self.leads:
            said["links"] = [{"title": f"This {self.header.lower()}", "url": self.leads}]
        if self.states:
            said["mappings"] = [panels.mapping(self.states)]
            said["custom.cellOptions"] = {"type": "color-text"}
        return [model.DynamicConfigValue(id_val=name, value=value) for name, value in said.items()]


CLIENT = Column("client_software_name", "Client", 150, leads=links.to_software())
VERSION = Column("client_software_version", "Version", 80)
RULE = Column("rule", "Rule", 290, leads=links.to_rule())
LEVEL = Column(
    "Level", "Level", 100, states={rank: (name, LEVELS[name]) for name, rank in RANKS.items()}, unit="none"
)
SENDER = Column("client_software_name", "Client", 250, leads=links.to_client())
API = Column("api", "API", 250)
API_VERSION = Column("version", "Version", 80)
FATE = Column("fate", "At the release", 120)
PROTOCOL = Column("protocol", "Protocol", 100)
RULE_NAME = Column("rule", "Rule", 290)
LEVEL_NAME = Column("level", "Level", 110)
LOWEST = Column("lowest", "Lowest", 80)
HIGHEST = Column("highest", "Highest", 80)
VERSIONS = Column("versions", "Versions", 130)
FEATURES = Column("features", "Features", 130)
FIRST = Column("First", "First", 125, unit=panels.MOMENT, states=BEFORE_RANGE)
LAST = Column("Last", "Last", 125, unit=panels.MOMENT)


def count(name: str, *, width: int = 90, empty: str = "0") -> Column:
    """A column of counts, 0 where nothing was counted."""
    return Column(name, name, width, unit=panels.COUNT, empty=empty)


def checked(name: str) -> Column:
    """A column of decided checks, which says so where there were none in the range."""
    return Column(
        name, name, 160, unit=panels.COUNT, states={NOT_EXERCISED: ("not in this range", GREY)}, empty="0"
    )


def table_panel(
    title: str,
    description: str,
    queries: dict[str, str],
    columns: Sequence[Column],
    *,
    span: int = 24,
    height: int = panels.GRAPH_HEIGHT,
    empty: str,
    sort: Sequence[str] = (),
) -> table.Panel:
    """Rows joined by their labels. `queries` maps the source of a column to its query.

    Labels that are no column are left out. `sort` names headers, highest values first.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATA_SOURCE)
        .unit(TEXT)
        .no_value(empty)
        .with_transformation(_transformation("merge", {}))
        .with_transformation(_transformation("filterFieldsByName", _kept(queries, columns)))
        .with_transformation(_transformation("organize", _order(queries, columns)))
        .sort_by([options.TableSortByFieldState().display_name(header).desc(True) for header in sort])
        .height(height)
        .span(span)
    )
    for column in columns:
        panel.override_by_name(column.header, column.properties())
    for reference, query in zip(REFERENCES, queries.values(), strict=False):
        panel.with_target(panels.instant(query).format(PromQueryFormat.TABLE).ref_id(reference))
    return panel


def _fields(queries: dict[str, str]) -> dict[str, str]:
    # One query's value column is called "Value", several are told apart by their reference.
    values = ["Value"] if len(queries) == 1 else [f"Value #{reference}" for reference in REFERENCES]
    return dict(zip(queries, values, strict=False))


def _kept(queries: dict[str, str], columns: Sequence[Column]) -> dict[str, object]:
    fields = _fields(queries)
    return {"include": {"names": [fields.get(column.source, column.source) for column in columns]}}


def _order(queries: dict[str, str], columns: Sequence[Column]) -> dict[str, object]:
    fields = _fields(queries)
    names = [fields.get(column.source, column.source) for column in columns]
    headers = [column.header for column in columns]
    return {
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": dict(zip(names, headers, strict=True)),
    }


def _transformation(identifier: str, settings: dict[str, object]) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=identifier, options=settings)
