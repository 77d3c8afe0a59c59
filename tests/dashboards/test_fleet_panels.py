"""What the dashboards about the fleet show of a real Prometheus: upgrades, groups, brokers, one client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.links import BROKERS, CLIENT, GROUPS, RULE, UPGRADE
from dashboards.panels import LEVELS, SILENCE
from tests.dashboards.dashboard_files import PANELS, filled, queries
from tests.dashboards.stored_series import Stored, Values, always, panel, stored

HOUR = 3600
OURS = 'job="kipwatch",instance="here"'
NEW = {BROKERS, CLIENT, GROUPS, UPGRADE}


def steadily(per_hour: float) -> Values:
    """A counter that has grown evenly since four hours ago."""
    return lambda before: round(per_hour * (4 * HOUR - before) / HOUR, 3)


def series(name: str, **labels: str) -> str:
    own = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{OURS},{own}}}"


def requests(api: str, version: str, software: str) -> str:
    return series("kipwatch_requests_total", api=api, version=version, client_software_name=software)


def known(api: str, version: str, fate: str, header: str = "2") -> str:
    return series("kipwatch_api_version_info", api=api, version=version, fate=fate, header=header)


def broker(address: str, advertisement: str) -> str:
    labels = {
        "cluster": "c",
        "listener": address,
        "broker": address,
        "versions": advertisement,
        "features": "ff",
    }
    return series("kipwatch_broker_info", **labels)


def offers(advertisement: str, api: str, highest: str) -> str:
    labels = {"versions": advertisement, "api": api, "lowest": "0", "highest": highest}
    return series("kipwatch_advertised_versions_info", **labels)


def feature(advertisement: str, name: str, kind: str) -> str:
    labels = {"features": advertisement, "feature": name, "kind": kind, "lowest": "1", "highest": "2"}
    return series("kipwatch_advertised_features_info", **labels)


def found(rule: str, level: str, name: str) -> str:
    software = {"client_software_name": name, "client_software_version": "1.0"}
    return series("kipwatch_findings_total", rule=rule, level=level, role="client", **software)


def checks(rule: str, verdict: str) -> str:
    return series("kipwatch_rule_checks_total", rule=rule, verdict=verdict, listener="L")


REBOOTSTRAP = "kip1242/rebootstrap-with-ids"
FLEET: dict[str, Values] = {
    requests("Fetch", "2", "old"): steadily(60),
    requests("Fetch", "2", "(former)"): steadily(999),
    requests("Fetch", "16", "java"): steadily(120),
    requests("Metadata", "14", "java"): steadily(60),
    requests("Metadata", "99", "next"): steadily(10),
    requests("ListGroups", "0", "java"): steadily(20),
    requests("Heartbeat", "4", "java"): steadily(30),
    requests("ConsumerGroupHeartbeat", "1", "java"): steadily(90),
    known("Fetch", "2", "removed"): always(1),
    known("Fetch", "16", "kept"): always(1),
    known("Metadata", "14", "kept", "3"): always(1),
    known("ListGroups", "0", "deprecated"): always(1),
    known("Metadata", "99", "newer"): always(1),
    known("Heartbeat", "4", "kept"): always(1),
    known("ConsumerGroupHeartbeat", "1", "kept"): always(1),
    series("kipwatch_broker_ids_total", client_software_name="java", ids="given"): steadily(3),
    series("kipwatch_broker_ids_total", client_software_name="java", ids="none"): steadily(1),
    broker("b1:9092", "aa"): always(1),
    broker("b2:9092", "aa"): always(1),
    broker("b3:9092", "bb"): always(1),
    offers("aa", "Fetch", "17"): always(1),
    offers("bb", "Fetch", "18"): always(1),
    offers("aa", "Metadata", "13"): always(1),
    offers("bb", "Metadata", "13"): always(1),
    offers("bb", "NewApi", "0"): always(1),
    feature("ff", "group.version", "supported"): always(1),
    feature("ff", "group.version", "finalized"): always(1),
    series("kipwatch_advertised_ranges_changes_total", listener="L"): lambda before: 1 if before < 600 else 0,
    found("kip1082/member-ghost", "information", "java"): steadily(2),
    found("kip1242/misrouted", "information", "java"): steadily(5),
    found("kip35/range-inverted", "improvement", "java"): steadily(9),
    found("kip35/range-inverted", "violation", "java"): steadily(1),
    found("kip35/range-inverted", "suppressed", "java"): steadily(7),
    checks(REBOOTSTRAP, "conforms"): steadily(4),
    checks(REBOOTSTRAP, "violates"): steadily(1),
    checks(REBOOTSTRAP, "undecided"): always(0),
    series("kipwatch_build_info", version="1", kafka="4.4.0"): always(1),
    series(
        "kipwatch_connections", client_software_name="java", client_software_version="1.0", listener="L"
    ): always(7),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with stored(FLEET, tmp_path_factory.mktemp("fleet")) as prometheus:
        yield prometheus


@pytest.mark.parametrize(
    ("uid", "panel"),
    [(uid, panel) for uid, panel in PANELS if uid in NEW],
    ids=[f"{uid}: {panel['title']}" for uid, panel in PANELS if uid in NEW],
)
def test_every_query_is_answered_with_data(fleet: Stored, uid: str, panel: dict[str, Any]) -> None:
    """Except since when there is none."""
    for target in panel["targets"]:
        found = fleet.get("query", query=filled(target["expr"]), time=fleet.end)["result"]
        assert bool(found) == (target["refId"] != SILENCE), target["expr"]


def test_what_would_break_is_named_by_software_and_version(fleet: Stored) -> None:
    assert fleet.figure(UPGRADE, "Requests that would be refused") == pytest.approx(60, abs=1)
    assert fleet.figure(UPGRADE, "Client software that would break") == 1
    (row,) = fleet.rows(UPGRADE, "Who would break, and by what")
    assert (row["Client"], row["API"], row["Version"]) == ("old", "Fetch", "2")
    (row,) = fleet.rows(UPGRADE, "Who should move on")
    assert (row["Client"], row["API"], row["Version"]) == ("java", "ListGroups", "0")
    shown = fleet.rows(UPGRADE, "Requests by software and version")
    assert {row["At the release"] for row in shown} == {"kept", "deprecated", "removed", "newer"}


def test_groups_are_told_apart_by_protocol(fleet: Stored) -> None:
    assert fleet.figure(GROUPS, "Heartbeats of the new protocols") == pytest.approx(0.75, abs=0.02)
    assert set(fleet.lines(GROUPS, "Heartbeats by protocol")) == {
        "Heartbeat Classic",
        "ConsumerGroupHeartbeat Consumer",
    }
    assert fleet.figure(GROUPS, "Ghosts") == pytest.approx(2, abs=1)
    protocols = {
        row["API"]: row["Protocol"] for row in fleet.rows(GROUPS, "Heartbeats by software and version")
    }
    assert protocols == {"Heartbeat": "Classic", "ConsumerGroupHeartbeat": "Consumer"}


def test_brokers_differ_in_what_not_all_offer(fleet: Stored) -> None:
    assert fleet.figure(BROKERS, "Brokers") == 3
    assert fleet.figure(BROKERS, "Different versions") == 2
    assert fleet.figure(BROKERS, "APIs that differ") == 2
    (target,) = panel(BROKERS, "Where brokers differ")["targets"]
    found = [each["metric"] for each in fleet.get("query", query=filled(target["expr"]))["result"]]
    (two,) = {each["brokers"] for each in found if each["range"] == "0\u201317"}
    assert two in ("b1:9092 (1 of 2)", "b2:9092 (1 of 2)")
    assert {(each["api"], each["range"], each["brokers"]) for each in found} == {
        ("Fetch", "0\u201317", two),
        ("Fetch", "0\u201318", "b3:9092 (1 of 1)"),
        ("NewApi", "0\u20130", "b3:9092 (1 of 1)"),
    }
    assert {row["Broker"] for row in fleet.rows(BROKERS, "What each broker advertises")} == {
        "b1:9092",
        "b2:9092",
        "b3:9092",
    }


def test_a_client_is_shown_with_its_part_in_new_kips(fleet: Stored) -> None:
    assert fleet.figure(CLIENT, "Connections") == 7
    assert fleet.figure(CLIENT, "Requests with an instance ID") == pytest.approx(60 / 390, abs=0.01)
    assert fleet.figure(CLIENT, "Requests that name the broker") == pytest.approx(0.75, abs=0.02)
    rules = {row["Rule"] for row in fleet.rows(CLIENT, "Offences against KIP-1242")}
    assert rules == {"kip1242/misrouted"}


@pytest.mark.parametrize("uid", [CLIENT, RULE])
def test_levels_stand_gravest_first(fleet: Stored, uid: str) -> None:
    (query,) = queries(panel(uid, "Offences by level"))
    shown = fleet.get("query", query=query, time=fleet.end)["result"]
    assert [each["metric"]["level"] for each in shown] == list(LEVELS)


def test_without_data_nothing_would_be_red(tmp_path: Path) -> None:
    """Without a request the figures are 0, which does not mean blind."""
    with stored({checks(REBOOTSTRAP, "undecided"): always(0)}, tmp_path) as prometheus:
        for uid, title in ((UPGRADE, "Requests that would be refused"), (BROKERS, "APIs that differ")):
            assert prometheus.figure(uid, title) == 0
