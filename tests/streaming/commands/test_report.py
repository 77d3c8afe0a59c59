"""`kipwatch report`: text, JSON and page; versions of brokers; features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.captures import planted, real_clients
from tests.streaming.commands.ran import WITHOUT_JAVA, Ran, run_process

Kipwatch = Callable[..., Ran]
FEATURES = "share-groups = {76 = 1, 78 = 1}\nnew-groups = {ConsumerGroupHeartbeat = 0}\n"


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "features.toml"
    path.write_text(FEATURES)
    return path


def test_the_text_names_every_client_and_what_nobody_exercised(kipwatch: Kipwatch) -> None:
    ran = kipwatch("report", real_clients.CAPTURE)
    assert (ran.status, ran.errors) == (0, "")
    for expected in (
        "apache-kafka-java 4.4.0: 8 connections",
        "librdkafka-producer",
        "not exercised by anybody:",
    ):
        assert expected in ran.output


def test_the_json_holds_clients_and_versions(kipwatch: Kipwatch, features: Path) -> None:
    report = json.loads(kipwatch("report", "--json", "--features", features, real_clients.CAPTURE).output)
    names = {client["client_software_name"] for client in report["summary"]["clients"]}
    assert names == {"apache-kafka-java", "confluent-kafka-python"}
    (broker,) = report["versions"]["brokers"]
    assert broker["ranges"] == report["versions"]["common"]
    share, new = report["versions"]["features"]
    assert (share["missing"], share["used_by"]) == ([], [])
    assert len(new["used_by"]) == 2


def test_violations_do_not_fail_a_report(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert kipwatch("report", "--html", path, planted.CAPTURE).status == 0
    assert path.read_text().startswith("<!doctype html>")


def test_versions_of_two_brokers_are_shown_beside_those_in_common(kipwatch: Kipwatch, features: Path) -> None:
    captures = (planted.CAPTURE, real_clients.CAPTURE)
    output = kipwatch("report", "--versions", "--features", features, *captures).output
    assert "Produce (0)" in output
    assert "share-groups: every broker seen can serve it" in output
    view = json.loads(kipwatch("report", "--versions", "--json", *captures).output)
    assert len(view["brokers"]) == 2


def test_a_capture_without_frames_is_2(kipwatch: Kipwatch, captures: Path) -> None:
    assert "the captures hold no Kafka frame" in kipwatch("report", captures / "empty.pcap").error_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("share-groups = {Nonsense = 1}", "there is no API 'Nonsense'"),
        ("share-groups = {99999 = 1}", "there is no API '99999'"),
        ("share-groups = 1", "Expected `object`, got `int`"),
        ("share-groups", "write a feature as `name = {76 = 1, 78 = 1}`"),
    ],
)
def test_mistaken_features_are_one_line(
    kipwatch: Kipwatch, captures: Path, features: Path, text: str, expected: str
) -> None:
    features.write_text(text)
    assert expected in kipwatch("report", "--features", features, captures / "clean.pcap").error_line


@pytest.mark.slow
def test_it_runs_without_java(captures: Path) -> None:
    assert run_process("report", captures / "violating.pcap", **WITHOUT_JAVA).status == 0


def test_the_page_shows_suppressed_findings_with_their_reason(kipwatch: Kipwatch, tmp_path: Path) -> None:
    (tmp_path / "kipwatch.toml").write_text(
        '[[suppress]]\nrule = "kip35/range-inverted"\nreason = "a test"\nuntil = 2999-01-01'
    )
    page = tmp_path / "fleet.html"
    kipwatch("report", "--config", tmp_path / "kipwatch.toml", "--html", page, planted.CAPTURE)
    assert "until 2999-01-01: a test" in page.read_text()
