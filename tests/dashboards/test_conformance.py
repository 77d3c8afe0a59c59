"""A lint of the generated dashboard: what a reader and a Grafana server need of each panel."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.metrics import METRICS
from tests.dashboards.prometheus import promtool

REPOSITORY = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((REPOSITORY / "dashboards/generated/conformance.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
GRAFANA_VARIABLES = {"$__range": "1h", "$__rate_interval": "5m", "$rule": ".*", "$software": ".*"}
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

each_panel = pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])


def expressions(panel: dict[str, Any]) -> list[str]:
    """A panel's queries as Prometheus would get them."""
    asked = []
    for target in panel["targets"]:
        expression: str = target["expr"]
        for name, value in (GRAFANA_VARIABLES | hidden_variables()).items():
            expression = expression.replace(name, value)
        asked.append(expression)
    return asked


def hidden_variables() -> dict[str, str]:
    return {
        f"${variable['name']}": variable["query"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "custom"
    }


def test_the_dashboard_can_be_found_again() -> None:
    """A fixed uid and a tag, so that links to it and between dashboards hold."""
    assert DASHBOARD["uid"] == "kipwatch-conformance"
    assert "kipwatch" in DASHBOARD["tags"]
    (link,) = DASHBOARD["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        ["kipwatch"],
        True,
        True,
    )


def test_a_reader_can_choose_data_source_rule_and_software() -> None:
    """Several at once, and all of them."""
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    for name in ("rule", "software"):
        assert variables[name]["multi"]
        assert variables[name]["includeAll"]
        assert variables[name]["datasource"] == DATA_SOURCE


def test_ids_and_titles_are_unique() -> None:
    """Grafana drops a panel whose id is taken."""
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in everything}) == len(everything)


def test_no_two_panels_overlap_and_none_leaves_the_grid() -> None:
    """Each cell of the grid of 24 columns belongs to one panel at most."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
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


def test_every_stat_has_thresholds_of_its_own() -> None:
    """Grafana's default turns a stat red at 80."""
    stats = [panel for panel in PANELS if panel["type"] == "stat"]
    assert stats
    for panel in stats:
        first, *higher = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert first["value"] is None
        assert higher, panel["title"]
        assert [step["value"] for step in higher] == sorted(step["value"] for step in higher)


def test_a_rule_that_was_never_exercised_is_not_green() -> None:
    """Neither on the timeline nor in the coverage table."""
    (timeline,) = (panel for panel in PANELS if panel["type"] == "state-timeline")
    (mapping,) = timeline["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"]["0"] == {"text": "never exercised", "color": "text", "index": 0}
    (coverage,) = (panel for panel in PANELS if panel["title"] == "Coverage")
    (override,) = coverage["fieldConfig"]["overrides"]
    properties = {entry["id"]: entry["value"] for entry in override["properties"]}
    assert override["matcher"] == {"id": "byName", "options": "Exercised"}
    assert properties["mappings"][0]["options"]["0"]["text"] == "never exercised"


def test_every_query_is_promql_and_names_only_metrics_that_exist(tmp_path: Path) -> None:
    """promtool parses what remains once Grafana has put its variables in."""
    asked = [expression for panel in PANELS for expression in expressions(panel)]
    rules = [{"record": f"panel:query:{number}", "expr": query} for number, query in enumerate(asked)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)
    assert not [query for query in asked if "$" in query]
    known = {metric.name for metric in METRICS}
    for name in re.findall(r"(?<![:\w])kipwatch_\w+", " ".join(asked)):
        assert name.removesuffix("_bucket") in known


def test_growth_counts_a_series_that_was_born_in_the_range_and_survives_a_restart(tmp_path: Path) -> None:
    """The panels' growth query, asked by promtool: `increase` alone would lose the first offence."""
    (findings,) = (panel for panel in PANELS if panel["title"].startswith("Offences"))
    (query,) = expressions(findings)
    labels = 'level="violation", client_software_name="lib", client_software_version="1"'
    born, restarted = (f'{{rule="{rule}", {labels}}}' for rule in ("born", "restarted"))
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f"kipwatch_findings_total{born}", "values": "_x100 1x30"},
            {"series": f"kipwatch_findings_total{restarted}", "values": "5x100 0 3x30"},
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
