"""`kipwatch doctor`: a line for each requirement and option, and whether kipwatch can run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.streaming.commands.ran import Kipwatch, Ran


def lines(ran: Ran) -> dict[str, tuple[str, str]]:
    """The answer and detail of each requirement."""
    shown = {}
    for line in ran.output.splitlines():
        answer, _, rest = line.partition(" ")
        need, _, detail = rest.strip().partition(": ")
        shown[need] = (answer, detail)
    return shown


@pytest.mark.jvm
def test_on_a_machine_that_is_set_up(kipwatch: Kipwatch) -> None:
    ran = kipwatch("doctor")
    shown = lines(ran)
    assert ran.status == 0
    assert shown["Python"] == ("yes", sys.version.split()[0])
    assert shown["Java"][0] == shown["jars"][0] == "yes"
    assert shown.keys() == {"Python", "Java", "jars", "packet capture", "promtool"}


@pytest.mark.usefixtures("without_java")
def test_without_java_it_says_how_to_get_it(kipwatch: Kipwatch) -> None:
    ran = kipwatch("doctor")
    answer, detail = lines(ran)["Java"]
    assert ran.status == 1
    assert answer == "no"
    assert "install openjdk-17-jre-headless" in detail


def test_a_missing_option_is_no_failure(kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to capture the demo still runs."""
    monkeypatch.setattr("streaming.commands.doctor.can_capture", lambda: False)
    monkeypatch.setattr("streaming.commands.doctor.java", lambda: "java")
    monkeypatch.setattr("streaming.commands.doctor.jars", lambda _: ["a.jar"])
    monkeypatch.setattr("streaming.commands.doctor._REQUIRED", {})
    ran = kipwatch("doctor")
    assert ran.status == 0
    assert lines(ran)["packet capture"][0] == "no"


def examined(kipwatch: Kipwatch, folder: Path, text: str) -> Ran:
    config = folder / "kipwatch.toml"
    config.write_text(f'bootstrap = "127.0.0.1:1"\n{text}')
    return kipwatch("doctor", "--config", config)


@pytest.mark.usefixtures("without_java")
def test_a_feeders_configuration_needs_no_java(kipwatch: Kipwatch, tmp_path: Path) -> None:
    ran = examined(kipwatch, tmp_path, 'feeder = "one"\ninterface = "eth77"\nports = 9092')
    assert ran.output.splitlines()[0].endswith("kipwatch.toml: feeder")
    shown = lines(ran)
    assert ran.status == 1
    assert shown["interface eth77"][0] == shown["Kafka at 127.0.0.1:1"][0] == "no"
    assert not {"Java", "jars", "checkpoint"} & shown.keys()


@pytest.mark.usefixtures("without_java")
def test_a_querys_configuration_needs_java_and_no_interface(kipwatch: Kipwatch, tmp_path: Path) -> None:
    ran = examined(kipwatch, tmp_path, "buckets = 16\nports = [1]")
    assert ran.output.splitlines()[0].endswith("kipwatch.toml: query")
    shown = lines(ran)
    assert shown["Java"][0] == shown["bootstrap"][0] == "no"
    assert shown["checkpoint"][0] == "yes"
    assert "packet capture" not in shown


def test_a_file_with_settings_of_neither_or_both_is_examined_for_both(
    kipwatch: Kipwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.commands.doctor.examination", lambda *_, **__: iter(()))
    for text in ("", 'feeder = "one"\nbuckets = 16'):
        ran = examined(kipwatch, tmp_path, text)
        assert ran.output.splitlines()[0].endswith("kipwatch.toml: feeder and query")


def test_a_mistaken_configuration_is_one_line(kipwatch: Kipwatch, tmp_path: Path) -> None:
    assert "port" in examined(kipwatch, tmp_path, "portz = 1").error_line
