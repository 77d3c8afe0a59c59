"""What the panels show of a real Prometheus: who breaks what, since when, how often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.links import CLIENTS, CONFORMANCE, RULE
from dashboards.recordings import NOT_EXERCISED, OFFENCES, RULE_STATE, VIOLATES
from tests.dashboards.dashboard_files import filled, variables
from tests.dashboards.stored_series import Stored, Values, always, panel, stored

MINUTE, HOUR = 60, 3600
BORN = 255
"""Seconds before the end at which the first offence of a series was counted."""
PRECISION = 60


def finding(rule: str, name: str, version: str, level: str = "violation") -> str:
    labels = f'role="client",client_software_name="{name}",client_software_version="{version}"'
    return f'kipwatch_findings_total{{job="kipwatch",rule="{rule}",level="{level}",{labels}}}'


def checks(rule: str, verdict: str) -> str:
    return f'kipwatch_rule_checks_total{{job="kipwatch",rule="{rule}",verdict="{verdict}"}}'


def state(rule: str) -> str:
    return f'{RULE_STATE}{{job="kipwatch",rule="{rule}"}}'


def recorded(rule: str) -> str:
    labels = 'level="violation",role="client",client_software_name="lib",client_software_version="2.10"'
    return f'{OFFENCES}{{job="kipwatch",rule="{rule}",{labels}}}'


def born(at: int) -> Values:
    """A series that does not exist until it is 1."""
    return lambda before: 1 if before <= at else None


def grows(at: int) -> Values:
    """A series that was 1 for hours, and becomes 2."""
    return lambda before: 2 if before <= at else 1


def scraped_in_vain(at: int) -> Values:
    """A series that was 7 for hours, and was not scraped for six minutes."""
    return lambda before: None if at - 6 * MINUTE < before <= at else 7


COUNTED = (1, 3, 7)
EXTRAPOLATED = 300 / 285
"""What `increase` makes of one offence in five minutes of samples, which are 15 s apart."""

SERIES = {
    **{recorded(f"kip511/{count}"): always(count * EXTRAPOLATED) for count in COUNTED},
    checks("kip511/born", "violates"): born(BORN),
    checks("kip511/born", "conforms"): always(0),
    checks("kip511/red-before", "conforms"): always(9),
    checks("kip511/red-before", "violates"): lambda before: 3 if before < 2 * HOUR else 2,
    finding("kip511/born", "lib", "2.10"): born(BORN),
    finding("kip511/again", "steady", "1.0", "improvement"): grows(10 * MINUTE),
    finding("kip511/red-before", "gone", "3"): lambda before: 3 if before < 2 * HOUR else 2,
    finding("kip511/gap", "blinking", "4"): scraped_in_vain(30 * MINUTE),
    finding("kip511/seen-late", "old", "5"): lambda before: 40 if before <= 20 * MINUTE else None,
    finding("kip511/seen-late", "old", "5").replace("_total", "_created"): always(0),
    state("kip511/born"): lambda before: VIOLATES if before < BORN else NOT_EXERCISED,
    state("kip511/red-before"): lambda before: VIOLATES if before > 2 * HOUR - 300 else NOT_EXERCISED,
    'kipwatch_connections{job="kipwatch",client_software_name="connected",client_software_version="1.0",'
    'listener="PLAIN"}': always(2),
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with stored(SERIES, tmp_path_factory.mktemp("stored")) as running:
        yield running


def row_of(rows: list[dict[str, Any]], rule: str) -> dict[str, Any]:
    (row,) = (row for row in rows if row["Rule"] == rule)
    return row


def test_an_offence_is_as_old_as_its_counter_says(prometheus: Stored) -> None:
    """The recorded state stays red for five minutes after it."""
    shown = prometheus.figure(CONFORMANCE, "Since the last violation", span="15m")
    assert shown == pytest.approx(BORN, abs=PRECISION)


def test_one_offence_is_first_and_last_seen_at_the_same_time(prometheus: Stored) -> None:
    row = row_of(prometheus.rows(CONFORMANCE, "Offences"), "kip511/born")
    assert row["First"] == row["Last"] == pytest.approx((prometheus.end - BORN) * 1000, abs=PRECISION * 1000)
    assert (row["Client"], row["Version"], row["Offences"]) == ("lib", "2.10", 1)


def test_a_first_offence_before_the_range_is_told_as_such(prometheus: Stored) -> None:
    """The column shows this value as words."""
    row = row_of(prometheus.rows(CONFORMANCE, "Offences"), "kip511/again")
    assert row["First"] == 0
    assert row["Last"] == pytest.approx((prometheus.end - 10 * MINUTE) * 1000, abs=PRECISION * 1000)
    overrides = panel(CONFORMANCE, "Offences")["fieldConfig"]["overrides"]
    (first,) = (each["properties"] for each in overrides if each["matcher"]["options"] == "First")
    (mapped,) = (entry["value"] for entry in first if entry["id"] == "mappings")
    assert mapped[0]["options"]["0"]["text"] == "before the range"


def test_what_did_not_grow_in_the_range_is_no_offence_of_it(prometheus: Stored) -> None:
    """A rule that was red before is not, nor a counter whose scrapes failed for a while, or began late."""
    rules = {row["Rule"] for row in prometheus.rows(CONFORMANCE, "Offences")}
    assert rules == {"kip511/born", "kip511/again"}


def test_the_last_offence_before_the_range_is_found(prometheus: Stored) -> None:
    """The only series left is the one that grew two hours ago."""
    query = panel(RULE, "Last seen")["targets"][0]["expr"].replace("$rule", "kip511/red-before")
    (found,) = prometheus.get("query", query=filled(query), time=prometheus.end)["result"]
    assert float(found["value"][1]) == pytest.approx((prometheus.end - 2 * HOUR) * 1000, abs=300_000)


def test_what_is_violated_now_is_counted_and_not_estimated(prometheus: Stored) -> None:
    target, *_ = panel(CONFORMANCE, "Violating now")["targets"]
    found = prometheus.get("query", query=filled(target["expr"]), time=prometheus.end)["result"]
    shown = {each["metric"]["rule"]: float(each["value"][1]) for each in found}
    assert shown == {f"kip511/{count}": count for count in COUNTED}


def test_the_bars_add_up_to_the_offences_the_first_of_a_series_included(prometheus: Stored) -> None:
    """This holds at any width of a bar. A series whose scrapes failed, or began late, has no bar."""
    for step in (60, 300):
        lines = prometheus.lines(RULE, "Offences by client software", step=step)
        assert {name: sum(bars) for name, bars in lines.items()} == {"lib 2.10": 1, "steady 1.0": 1}


def test_a_restarted_counter_has_a_bar_for_what_it_counted_since(tmp_path: Path) -> None:
    """Its value falls, which is no negative growth."""
    fallen = {
        finding("kip511/restarted", "lib", "1"): lambda before: 5 if before > 600 else 2,
        checks("kip511/restarted", "violates"): always(1),
    }
    with stored(fallen, tmp_path) as prometheus:
        lines = prometheus.lines(RULE, "Offences by client software")
    assert lines == {"lib 1": [2.0]}


def test_a_rule_that_was_red_before_the_range_was_not_exercised_in_it(prometheus: Stored) -> None:
    """The panel says so, since "never" would be wrong."""
    row = row_of(prometheus.rows(CONFORMANCE, "Coverage"), "kip511/red-before")
    assert row["Exercised"] == 0
    overrides = panel(CONFORMANCE, "Coverage")["fieldConfig"]["overrides"]
    (exercised,) = (each["properties"] for each in overrides if each["matcher"]["options"] == "Exercised")
    (mapped,) = (entry["value"] for entry in exercised if entry["id"] == "mappings")
    assert mapped[0]["options"]["0"]["text"] == "not in this range"


def test_the_timelines_share_the_rules_between_them(prometheus: Stored) -> None:
    """One has the rules broken in the range, the other the rest, whatever their states before."""
    broken = prometheus.lines(CONFORMANCE, "Rules that were broken in the range")
    others = prometheus.lines(CONFORMANCE, "Rules that were not broken in the range")
    assert (set(broken), set(others)) == ({"kip511/born"}, {"kip511/red-before"})


def test_software_can_be_chosen_that_has_offended_and_has_no_connection(prometheus: Stored) -> None:
    (software,) = (each for each in variables(CLIENTS) if each["name"] == "software")
    selector, _, label = software["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
    named = prometheus.get(f"label/{label}/values", **{"match[]": filled(selector)})
    assert {"connected", "lib", "steady", "gone"} <= set(named)


def test_versions_that_offend_are_among_the_versions_that_were_seen(prometheus: Stored) -> None:
    """One was connected when kipwatch was scraped, two others offended."""
    assert prometheus.figure(CLIENTS, "Versions of client software") == 3
    assert prometheus.figure(CLIENTS, "Versions that violate") == 1
    rows = {row["Client"]: row for row in prometheus.rows(CLIENTS, "Software and version")}
    assert rows["connected"] == {"Client": "connected", "Version": "1.0", "Connections": 2}
    assert rows["lib"] == {"Client": "lib", "Version": "2.10", "Offences": 1}


def test_rows_sort_by_how_grave_the_level_is(prometheus: Stored) -> None:
    levels = {row["Rule"]: row["Level"] for row in prometheus.rows(CONFORMANCE, "Offences")}
    assert levels["kip511/born"] > levels["kip511/again"]
    sorting = panel(CONFORMANCE, "Offences")["options"]["sortBy"]
    assert [(each["displayName"], each["desc"]) for each in sorting] == [("Level", True), ("Offences", True)]
