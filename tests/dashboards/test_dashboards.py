"""A lint of the generated dashboards: what a reader and a Grafana server need of each panel."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dashboards import links
from dashboards.alert import DELAY_SECONDS, LOST_SHARE
from dashboards.build import artefacts
from dashboards.layout import annotation_queries
from dashboards.links import Addresses
from dashboards.panels import UNKNOWN
from expectations.rules.catalogue import RULES
from streaming.metrics.definitions import METRICS
from tests.dashboards.dashboard_files import (
    CHOSEN,
    DASHBOARDS,
    PANELS,
    everything_on,
    leads,
    queries,
    variables,
)
from tests.dashboards.prometheus import check_queries
from tests.dashboards.rule_file import RECORDINGS

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRAFANA_OWN = {
    *("__url_time_range", "__value", "__data"),
    *("__range", "__range_s", "__rate_interval", "__interval", "__interval_ms"),
}

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
each_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in PANELS], ids=[f"{uid}: {panel['title']}" for uid, panel in PANELS]
)


def named(title: str) -> dict[str, Any]:
    (panel,) = (panel for _, panel in PANELS if panel["title"] == title)
    return panel


def test_the_dashboards_can_be_found_again() -> None:
    """Fixed identifiers, so that links to them hold."""
    of_rules = {links.CONFORMANCE, links.CLIENTS, links.RULE, links.PIPELINE}
    assert set(DASHBOARDS) == of_rules | {links.UPGRADE, links.GROUPS, links.BROKERS, links.CLIENT}


@each_dashboard
def test_a_menu_leads_to_the_others_and_keeps_time_and_variables(dashboard: dict[str, Any]) -> None:
    (link,) = dashboard["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        ["kipwatch"],
        True,
        True,
    )
    assert dashboard["tags"] == ["kipwatch"]
    assert dashboard["description"].endswith(".")


@each_dashboard
def test_a_dashboard_is_changed_where_it_is_made_and_not_in_the_browser(dashboard: dict[str, Any]) -> None:
    """Edits in Grafana would be lost with the next version."""
    assert dashboard["editable"] is False


@each_dashboard
def test_every_variable_of_a_dashboard_does_something_there(dashboard: dict[str, Any]) -> None:
    """A variable that no panel reads misleads; one that a panel reads must exist."""
    source, *chosen = dashboard["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    asked = " ".join(
        target["expr"] for panel in everything_on(dashboard) for target in panel.get("targets", [])
    )
    used = set(re.findall(r"\$([a-z_]\w*)", asked)) - GRAFANA_OWN
    assert used == {variable["name"] for variable in chosen}
    for variable in chosen:
        assert variable["datasource"] == DATA_SOURCE


@each_dashboard
def test_several_values_or_all_can_be_chosen(dashboard: dict[str, Any]) -> None:
    """The Rule dashboard opens on one rule."""
    for variable in dashboard["templating"]["list"][1:]:
        if (dashboard["uid"], variable["name"]) == (links.RULE, "rule"):
            assert not variable.get("multi") and not variable.get("includeAll")
        else:
            assert variable["multi"] and variable["includeAll"]
            assert variable["allValue"] == CHOSEN[f"${variable['name']}"]


@each_dashboard
def test_alerts_and_restarts_are_marked_on_the_graphs(dashboard: dict[str, Any]) -> None:
    """Each annotation is of the chosen data source and job."""
    marked = {each["name"]: each for each in dashboard["annotations"]["list"]}
    assert {"Alerts begin", "Alerts end", "Restarts of the query", "Restarts of feeders"} <= set(marked)
    for each in marked.values():
        assert each["datasource"] == DATA_SOURCE
        assert 'job=~"$job' in each["expr"]
    about_kafka = dashboard["uid"] != links.PIPELINE
    assert ("kafka" in marked["Alerts begin"]["expr"]) == about_kafka


@each_dashboard
def test_ids_and_titles_are_unique(dashboard: dict[str, Any]) -> None:
    """Grafana drops a panel whose id is taken."""
    everything = everything_on(dashboard)
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in everything}) == len(everything)


@each_dashboard
def test_no_two_panels_overlap_and_none_leaves_the_grid(dashboard: dict[str, Any]) -> None:
    """Each cell of the grid of 24 columns belongs to one panel at most."""
    taken: set[tuple[int, int]] = set()
    for panel in everything_on(dashboard):
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))
        assert max(columns) < 24, f"{panel['title']}: columns beyond 24: add up the spans of its line"
        assert not cells & taken, panel["title"]
        taken |= cells


@each_panel
def test_each_panel_explains_itself(panel: dict[str, Any]) -> None:
    """A description, a unit, and words for when there is nothing to show."""
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["description"].endswith(".")
    assert defaults["unit"]
    assert defaults["noValue"]


@each_panel
def test_each_panel_asks_the_chosen_data_source_only(panel: dict[str, Any]) -> None:
    """No data source of the author's machine may remain in an imported dashboard."""
    assert panel["datasource"] == DATA_SOURCE
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references) > 0
    for target in panel["targets"]:
        assert target["datasource"] == DATA_SOURCE


@each_panel
def test_each_query_obeys_the_choice_of_the_job(panel: dict[str, Any]) -> None:
    """Every selector has the job, so that two installations are not mixed up."""
    for target in panel["targets"]:
        for selected in re.findall(r"[\w:]*kipwatch_[\w:]+(\{[^}]*\})?", target["expr"]):
            assert 'job=~"$job"' in selected, target["expr"]


@each_panel
def test_a_figure_is_coloured_only_where_it_judges(panel: dict[str, Any]) -> None:
    """By thresholds of its own: Grafana's default turns a stat red at 80. A count has no colour."""
    if panel["type"] != "stat":
        return
    first, *higher = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert first["value"] is None
    mode = panel["options"]["colorMode"]
    assert mode in ("none", "value", "background")
    assert bool(higher) == (mode != "none") or panel["title"] == "Offences by level"
    assert [step["value"] for step in higher] == sorted(step["value"] for step in higher)
    # Grafana gives a figure without data the first colour.
    assert first["color"] == (UNKNOWN if higher else "text")
    assert not higher or higher[0]["value"] == 0


def columns(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The properties of a table's columns by their headers, as Grafana applies them."""
    defaults = panel["fieldConfig"]["defaults"]
    overrides = {
        override["matcher"]["options"]: {entry["id"]: entry["value"] for entry in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["id"] == "byName"
    }
    (order,) = (step["options"] for step in panel["transformations"] if step["id"] == "organize")
    return {header: {**defaults, **overrides.get(header, {})} for header in order["renameByName"].values()}


TABLES = [
    (uid, panel)
    for uid, panel in PANELS
    if panel["type"] == "table" and panel["transformations"][0]["id"] == "merge"
]
"""All but the matrix, whose columns are made of labels."""
each_table = pytest.mark.parametrize(
    "panel",
    [panel for _, panel in TABLES],
    ids=[f"{uid}: {panel['title']}" for uid, panel in TABLES],
)


def width(column: dict[str, Any]) -> int:
    """The least width of a column in pixels."""
    return int(column.get("custom.width") or column["custom.minWidth"])


@each_table
def test_a_label_is_shown_as_it_is(panel: dict[str, Any]) -> None:
    """With a number's unit Grafana reads version 2.10 as a number, and shows 2.1."""
    (order,) = (step["options"] for step in panel["transformations"] if step["id"] == "organize")
    told = columns(panel)
    for field, header in order["renameByName"].items():
        if not field.startswith("Value"):
            assert told[header]["unit"] == "string", header
        else:
            assert told[header]["unit"] != "string", header


@each_table
def test_a_cell_without_a_value_does_not_say_that_the_panel_is_empty(panel: dict[str, Any]) -> None:
    """Grafana puts the text for an empty panel into every cell that has no value."""
    for header, told in columns(panel).items():
        assert told["noValue"] in ("0", "\u2013"), header


@each_table
def test_columns_have_widths_that_fit_a_narrow_window(panel: dict[str, Any]) -> None:
    """1024 pixels less the margins leave 980 for a table that is as wide; no rule's ID is cut."""
    told = columns(panel)
    if panel["gridPos"]["w"] == 24:
        assert sum(map(width, told.values())) <= 980
    longest = max(len(rule.id) for rule in RULES)
    assert "Rule" not in told or width(told["Rule"]) >= 7 * longest


@each_table
def test_tables_are_wide_sorted_and_headed_by_words(panel: dict[str, Any]) -> None:
    told = columns(panel)
    assert all(header[0].isupper() or header == "kipwatch" for header in told)
    assert {each["displayName"] for each in panel["options"].get("sortBy", [])} <= set(told)
    assert panel["gridPos"]["w"] == 24 or len(told) <= 3


@each_panel
def test_links_of_cells_lead_to_dashboards_and_keep_time_and_variables(panel: dict[str, Any]) -> None:
    for address in leads(panel):
        assert "${__url_time_range}" in address
        if links.SUBJECT in address:
            continue
        uid = address.partition("?")[0].removeprefix("/d/")
        assert uid in DASHBOARDS
        kept = set(re.findall(r"\$\{(\w+):queryparam\}|var-(\w+)=", address))
        assert {name for pair in kept for name in pair if name} == {
            variable["name"] for variable in variables(uid)
        }


def runbook_column(board: dict[str, Any]) -> tuple[str, list[str]]:
    """A query of the table of the rule's page as it is built, and where its column `page` leads."""
    (panel,) = (panel for panel in board["panels"] if panel["title"] == "The rule and its page")
    return panel["targets"][0]["expr"], [address for address in leads(panel) if "page" in address]


def test_a_rule_is_shown_with_its_page_which_is_a_link_where_a_browser_can_open_it() -> None:
    """A path in a repository would lead Grafana to a page that it does not have."""
    query, leading = runbook_column(DASHBOARDS[links.RULE])
    assert '"page", "kipwatch rules $1/$2", "rule"' in query and leading == []
    own = artefacts(Addresses("https://grafana.example", "https://wiki.example/runbook"))
    query, leading = runbook_column(json.loads(own["dashboards/generated/rule.json"]))
    assert '"page", "https://wiki.example/runbook#$1$2", "rule"' in query
    assert leading == ["${__data.fields.page}"]


def test_timelines_show_every_rule_on_one_page_and_leave_out_what_was_not_exercised() -> None:
    """From 11.2.1 on, Grafana shows 20 bars and hides the rest, perhaps the only violated rule."""
    timelines = [panel for _, panel in PANELS if panel["type"] == "state-timeline"]
    assert len(timelines) == 3
    for timeline in timelines:
        assert timeline["options"]["perPage"] >= len(RULES)
        mapping, nothing = timeline["fieldConfig"]["defaults"]["mappings"]
        assert (nothing["options"]["match"], nothing["options"]["result"]["text"]) == ("null", "")
        assert mapping["options"]["0"] == {"text": " ", "color": "transparent", "index": 0}
        assert timeline["options"]["legend"]["showLegend"]


def test_nothing_is_called_never_exercised() -> None:
    """A dashboard knows only its range."""
    assert "never exercised" not in json.dumps(DASHBOARDS)


def test_the_lines_of_verdicts_have_fixed_colours() -> None:
    colours = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in named("Checks by verdict")["fieldConfig"]["overrides"]
    }
    assert colours == {"conforms": "green", "violates": "red", "undecided": "purple"}


def test_conformance_answers_in_the_first_screen() -> None:
    """900 pixels less Grafana's own bars are some 20 cells of the grid, 38 pixels each."""
    seen = [
        panel["title"]
        for panel in DASHBOARDS[links.CONFORMANCE]["panels"]
        if panel["gridPos"]["y"] + panel["gridPos"]["h"] <= 20 and panel["type"] != "row"
    ]
    assert seen[:2] == ["Rules violated now", "Violating now"]
    assert {"Since the last violation", "Offences", "Firing alerts"} <= set(seen)


def test_limits_are_drawn_and_a_share_never_exceeds_one() -> None:
    lost, delay = named("Bytes not captured, by feeder"), named("Delay from capture to judgement")
    assert lost["fieldConfig"]["defaults"]["max"] == 1
    for graph, limit in ((lost, LOST_SHARE), (delay, DELAY_SECONDS)):
        defaults = graph["fieldConfig"]["defaults"]
        assert defaults["thresholds"]["steps"][1] == {"value": limit, "color": "red"}
        assert defaults["custom"]["thresholdsStyle"]["mode"] == "dashed"
    assert named("Frames by API")["options"]["legend"]["calcs"] == ["lastNotNull", "max"]


def test_rates_name_what_they_count() -> None:
    """Rates have a unit that names what is counted, such as frames/s."""
    assert not [panel["title"] for _, panel in PANELS if panel["fieldConfig"]["defaults"]["unit"] == "cps"]


def test_every_query_is_promql_and_names_only_series_that_exist(tmp_path: Path) -> None:
    """promtool parses the queries with Grafana's variables filled in."""
    asked = [query for _, panel in PANELS for query in queries(panel)]
    check_queries(tmp_path, asked)
    known = {metric.name for metric in METRICS} | {recording["record"] for recording in RECORDINGS}
    for name in re.findall(r"[\w:]*kipwatch_[\w:]+", " ".join(asked)):
        series = re.sub(r"_(bucket|count|sum)$", "", name.replace("_created", "_total"))
        assert series in known, f"a panel asks for {name}, which is neither in METRICS nor recorded"


def test_every_metric_is_on_a_panel_or_marks_all_of_them() -> None:
    """Directly, or in a recorded series."""
    shown = " ".join(query for _, panel in PANELS for query in queries(panel))
    shown += " ".join(each.build().expr or "" for each in annotation_queries())
    shown += " ".join(made["expr"] for made in RECORDINGS if made["record"] in shown)
    for metric in METRICS:
        assert re.search(rf"(?<![\w:]){metric.name}(_bucket|_count)?\b", shown), (
            f'{metric.name} is on no panel: step 3 of "Add a metric or a panel" in docs/contributing.md'
        )
