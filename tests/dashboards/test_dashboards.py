"""A lint of the generated dashboards: what a reader and a Grafana server need of each panel."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import links
from dashboards.build import artefacts
from dashboards.links import Places
from streaming.metrics.definitions import METRICS
from tests.dashboards.dashboard_files import DASHBOARDS, PANELS, queries, variables
from tests.dashboards.prometheus import promtool
from tests.dashboards.rule_file import RECORDINGS, REPOSITORY

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRAFANA_OWN = {"__url_time_range", "__value", "__data", "__range", "__rate_interval"}

each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
each_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in PANELS], ids=[f"{uid}: {panel['title']}" for uid, panel in PANELS]
)


def leads(panel: dict[str, Any]) -> list[str]:
    """The addresses that a panel's cells lead to."""
    return [
        link["url"]
        for override in panel["fieldConfig"]["overrides"]
        for changed in override["properties"]
        if changed["id"] == "links"
        for link in changed["value"]
    ]


def named(title: str) -> dict[str, Any]:
    (panel,) = (panel for _, panel in PANELS if panel["title"] == title)
    return panel


def test_the_four_dashboards_can_be_found_again() -> None:
    """Fixed identifiers, so that links to them hold."""
    assert set(DASHBOARDS) == {links.CONFORMANCE, links.CLIENTS, links.RULE, links.PIPELINE}


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
    """What is edited there is lost when the next version is provisioned."""
    assert dashboard["editable"] is False


@each_dashboard
def test_the_same_variables_can_be_chosen_everywhere(dashboard: dict[str, Any]) -> None:
    """Several values at once, and all of them; from the chosen data source."""
    source, *chosen = dashboard["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [variable["name"] for variable in chosen] == ["job", "rule", "software"]
    for variable in chosen:
        assert variable["multi"] and variable["includeAll"] and variable["allValue"] == ".+"
        assert variable["datasource"] == DATA_SOURCE


@each_dashboard
def test_ids_and_titles_are_unique(dashboard: dict[str, Any]) -> None:
    """Grafana drops a panel whose id is taken."""
    everything = dashboard["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in everything}) == len(everything)


@each_dashboard
def test_no_two_panels_overlap_and_none_leaves_the_grid(dashboard: dict[str, Any]) -> None:
    """Each cell of the grid of 24 columns belongs to one panel at most."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))
        assert max(columns) < 24, panel["title"]
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
    """Every series that is selected is selected by it: two installations must not be mixed up."""
    for target in panel["targets"]:
        for selected in re.findall(r"[\w:]*kipwatch_[\w:]+(\{[^}]*\})?", target["expr"]):
            assert 'job=~"$job"' in selected, target["expr"]


@each_panel
def test_a_stat_or_coloured_column_has_thresholds_of_its_own(panel: dict[str, Any]) -> None:
    """Grafana's default turns a stat red at 80."""
    if panel["type"] != "stat":
        return
    first, *higher = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert first["value"] is None
    assert higher
    assert [step["value"] for step in higher] == sorted(step["value"] for step in higher)


@each_panel
def test_links_of_cells_lead_to_dashboards_and_keep_time_and_variables(panel: dict[str, Any]) -> None:
    for address in leads(panel):
        uid = address.partition("?")[0].removeprefix("/d/")
        assert uid in DASHBOARDS
        assert "${__url_time_range}" in address
        kept = set(re.findall(r"\$\{(\w+):queryparam\}|var-(\w+)=", address))
        assert {name for pair in kept for name in pair if name} == {
            variable["name"] for variable in variables(uid)
        }


def runbook_column(board: dict[str, Any]) -> tuple[str, list[str]]:
    """A query of the table of broken rules as it is built, and where its column `page` leads."""
    (panel,) = (panel for panel in board["panels"] if panel["title"] == "Broken rules and their pages")
    return panel["targets"][0]["expr"], [address for address in leads(panel) if "page" in address]


def test_a_rule_is_shown_with_its_page_which_is_a_link_where_a_browser_can_open_it() -> None:
    """A path in a repository would lead Grafana to a page that it does not have."""
    query, leading = runbook_column(DASHBOARDS[links.RULE])
    assert '"page", "docs/runbook.md#$1$2", "rule"' in query and leading == []
    own = artefacts(Places("https://grafana.example", "https://wiki.example/runbook"))
    query, leading = runbook_column(json.loads(own["dashboards/generated/rule.json"]))
    assert '"page", "https://wiki.example/runbook#$1$2", "rule"' in query
    assert leading == ["${__data.fields.page}"]


def test_a_rule_that_was_never_exercised_is_not_green() -> None:
    """Neither on a timeline nor in the coverage table."""
    timelines = [panel for _, panel in PANELS if panel["type"] == "state-timeline"]
    assert len(timelines) == 2
    for timeline in timelines:
        (mapping,) = timeline["fieldConfig"]["defaults"]["mappings"]
        assert mapping["options"]["0"] == {"text": "never exercised", "color": "text", "index": 0}
    overrides = {
        override["matcher"]["options"]: {entry["id"]: entry["value"] for entry in override["properties"]}
        for override in named("Coverage")["fieldConfig"]["overrides"]
    }
    assert overrides["Exercised"]["mappings"][0]["options"]["0"]["text"] == "never exercised"


def test_every_query_is_promql_and_names_only_series_that_exist(tmp_path: Path) -> None:
    """promtool parses what remains once Grafana has put its variables in."""
    asked = [query for _, panel in PANELS for query in queries(panel)]
    rules = [{"record": f"panel:query:{number}", "expr": query} for number, query in enumerate(asked)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)
    known = {metric.name for metric in METRICS} | {recording["record"] for recording in RECORDINGS}
    for name in re.findall(r"[\w:]*kipwatch_[\w:]+", " ".join(asked)):
        assert name.removesuffix("_bucket").removesuffix("_count") in known


def test_every_metric_is_on_a_panel() -> None:
    """By itself, or worked into a recorded series that a panel shows."""
    shown = " ".join(query for _, panel in PANELS for query in queries(panel))
    shown += " ".join(made["expr"] for made in RECORDINGS if made["record"] in shown)
    for metric in METRICS:
        assert re.search(rf"(?<![\w:]){metric.name}(_bucket|_count)?\b", shown), metric.name


def test_growth_counts_a_series_that_was_born_in_the_range_and_survives_a_restart(tmp_path: Path) -> None:
    """The panels' growth query, asked by promtool: `increase` alone would lose the first offence."""
    (query,) = queries(next(panel for _, panel in PANELS if panel["title"].startswith("Offences by rule")))
    labels = 'level="violation", client_software_name="lib", client_software_version="1"'
    born, restarted = (f'{{rule="{rule}", {labels}}}' for rule in ("born", "restarted"))

    def found(shown: str) -> str:
        return shown.replace("{", '{job="kipwatch", ')

    case = {
        "interval": "1m",
        "input_series": [
            {"series": f"kipwatch_findings_total{found(born)}", "values": "_x100 1x30"},
            {"series": f"kipwatch_findings_total{found(restarted)}", "values": "5x100 0 3x30"},
        ],
        "promql_expr_test": [
            {
                "expr": query,
                "eval_time": "120m",
                "exp_samples": [{"labels": born, "value": 1}, {"labels": restarted, "value": 3}],
            }
        ],
    }
    file = tmp_path / "growth.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", file)


def test_zeros_of_stats_need_a_kipwatch_that_is_scraped(tmp_path: Path) -> None:
    """With nothing scraped no stat may claim anything, least of all that all is well."""
    asked = [query for _, panel in PANELS if panel["type"] == "stat" for query in queries(panel)]
    silent = [{"expr": query, "eval_time": "120m", "exp_samples": []} for query in asked]
    case = {
        "interval": "1m",
        "input_series": [{"series": 'up{job="kipwatch"}', "values": "0x120"}],
        "promql_expr_test": silent,
    }
    file = tmp_path / "blind.yml"
    rules = str(REPOSITORY / "dashboards/generated/alerts.yml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": [case]}))
    promtool("test", "rules", file)
