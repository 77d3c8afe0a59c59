"""The pinned jars: what Ivy prints, digests, a cache that is complete or absent; the Java that runs them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from streaming.broker import jars as cache
from streaming.broker.jars import (
    PINS,
    S3_PINS,
    IvyConfiguration,
    complete,
    error_in,
    jars,
    java,
    progress,
    record,
    verify,
    version_in,
)
from streaming.user_error import UserError
from tests.pins import dependencies, pinned_by

# No artifact can be fetched through a proxy where nobody listens.
NO_NETWORK = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, on a machine without network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", NO_NETWORK)
    return tmp_path / "kipwatch" / "jars"


def test_a_folder_is_complete_while_all_its_jars_are_there(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    assert complete(home, pins)
    (home / "broker" / "a-1.jar").unlink()
    assert not complete(home, pins)
    assert not complete(tmp_path / "absent", pins)


def test_a_cache_that_cannot_be_written_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kipwatch").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot keep jars in .*; set XDG_CACHE_HOME"):
        jars("broker")


@pytest.mark.jvm
def test_a_resolve_that_fails_says_why_and_leaves_no_partial_folder(empty_cache: Path) -> None:
    with pytest.raises(UserError, match=r"cannot fetch the pinned jars: .*; check the network"):
        jars("broker")
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


@pytest.mark.jvm
@pytest.mark.long
def test_two_processes_do_not_resolve_at_once(empty_cache: Path) -> None:
    with pytest.raises(UserError):
        jars("broker")
    (lock,) = empty_cache.iterdir()
    command = [sys.executable, "-m", "kipwatch", "prepare"]
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(
            command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert "looking for" in second.stdout.readline()
        assert "another process" in second.stdout.readline()
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert errors.startswith("kipwatch: cannot fetch the pinned jars")
    assert errors.count("\n") == 1


@pytest.mark.jvm
def test_the_pinned_jars_are_there() -> None:
    broker = {jar.name for jar in jars("broker")}
    assert {"kafka_2.13-4.4.0.jar", "kafka-clients-4.4.0.jar", "log4j-slf4j-impl-2.25.5.jar"} <= broker
    assert not any(name.startswith("kafka-tools-api") for name in broker)
    assert {jar.name for jar in jars("connector")} == {
        "commons-pool2-2.13.1.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    }


def test_every_dependency_is_pinned_to_one_version_in_one_configuration() -> None:
    pinned = dependencies(PINS)
    pins = {(d.get("conf"), d.get("name")): d.get("rev", "") for d in pinned}
    assert len(pins) == len(pinned)
    assert all(version[0].isdigit() and not set(version) & set("[](),+") for version in pins.values())
    assert pins["broker->default", "kafka_2.13"] == "4.4.0"
    assert pins["connector->default", "spark-sql-kafka-0-10_2.13"] == "4.2.0"


def test_the_settings_name_no_host() -> None:
    assert "://" not in PINS.with_name("ivysettings.xml").read_text()


def test_progress_is_read_from_the_lines_of_ivy() -> None:
    assert progress("\tfound org.apache.kafka#kafka-clients;4.4.0 in central\n") == (
        "found",
        "kafka-clients 4.4.0",
    )
    assert progress(
        "\t[SUCCESSFUL ] org.xerial.snappy#snappy-java;1.1.10.7!snappy-java.jar(bundle) (158ms)\n"
    ) == (
        "fetched",
        "snappy-java 1.1.10.7",
    )
    assert progress(":: resolution report :: resolve 48770ms :: artifacts dl 9731ms\n") is None
    assert progress("\n") is None


def test_the_cause_is_preferred_to_its_consequence() -> None:
    refused = (
        "Server access error at url https://example.org/x.pom (java.net.ConnectException: Connection refused)"
    )
    missing = "module not found: org.apache.kafka#kafka_2.13;4.4.0"
    assert error_in([missing, "", refused]) == refused
    assert error_in(["", missing]) == missing
    assert error_in(["something else", ""]) == "something else"
    assert error_in([]) == "Ivy printed nothing"


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    """Pins with two recorded jars."""
    pins = tmp_path / "ivy.xml"
    pins.write_text("<ivy-module/>")
    record(pins, fetched(tmp_path / "recorded"))
    return pins


def fetched(home: Path) -> Path:
    """Return a folder of jars as Ivy leaves it."""
    for name in ("broker/a-1.jar", "connector/b-2.jar"):
        jar = home / name
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(name.encode())
    return home


def test_recorded_jars_pass(pins: Path, tmp_path: Path) -> None:
    verify(fetched(tmp_path / "new"), pins)


def test_an_altered_jar_is_named_with_both_digests(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "broker" / "a-1.jar").write_bytes(b"something else")
    with pytest.raises(
        UserError, match=r"broker/a-1\.jar is not the recorded jar: .* [0-9a-f]{64}, .* [0-9a-f]{64};"
    ):
        verify(home, pins)


def test_a_jar_that_nobody_recorded_is_refused(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "broker" / "c-3.jar").touch()
    with pytest.raises(UserError, match=r"broker/c-3\.jar is not recorded in ivy\.sha256"):
        verify(home, pins)


def test_a_recorded_jar_that_was_not_fetched_is_named(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "connector" / "b-2.jar").unlink()
    with pytest.raises(UserError, match=r"connector/b-2\.jar was not fetched"):
        verify(home, pins)


def test_without_a_list_nothing_is_taken(pins: Path, tmp_path: Path) -> None:
    pins.with_suffix(".sha256").unlink()
    with pytest.raises(UserError, match=r"ivy\.sha256 is missing, so no jar can be verified; record it"):
        verify(fetched(tmp_path / "new"), pins)


@pytest.fixture
def first_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The content of the first jar that a stand-in for Ivy fetches into an empty cache."""
    content = [b"broker/a-1.jar"]

    def retrieve(_pins: Path, target: Path, _report: object) -> None:
        (fetched(target) / "broker" / "a-1.jar").write_bytes(content[0])
        (target / "ivy").mkdir()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "retrieve", retrieve)
    return content


def test_an_altered_jar_never_reaches_the_cache(pins: Path, tmp_path: Path, first_jar: list[bytes]) -> None:
    first_jar[0] = b"altered on the way"
    with pinned_by(pins), pytest.raises(UserError, match="is not the recorded jar"):
        jars("broker")
    assert [path.suffix for path in (tmp_path / "kipwatch" / "jars").iterdir()] == [".lock"]


@pytest.mark.usefixtures("first_jar")
@pytest.mark.parametrize("name", ["broker/a-1.jar", "broker/planted.jar"])
def test_a_jar_that_is_put_into_the_cache_later_is_not_used(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A process compares a cache once, so the planted jar lies in a copy that this process does not know."""
    with pinned_by(pins):
        (jar,) = jars("broker")
        copied = shutil.copytree(tmp_path / "kipwatch", tmp_path / "later" / "kipwatch")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "later"))
        home = copied / "jars" / jar.parents[1].name
        (home / name).write_bytes(b"planted")
        with pytest.raises(UserError, match=rf"{name} is not the recorded jar; remove {home}"):
            jars("broker")


LISTS = [PINS, ROOT / "tests/oracle/ivy.xml", ROOT / "tests/decoders/schema/releases.xml"]


@pytest.mark.parametrize("pins", [*LISTS, S3_PINS])
def test_every_pinned_jar_is_recorded(pins: Path) -> None:
    recorded = pins.with_suffix(".sha256").read_text()
    for dependency in dependencies(pins):
        configuration = dependency.get("conf", "").partition("->")[0]
        assert f"  {configuration}/{dependency.get('name')}-{dependency.get('rev')}" in recorded, (
            f"run `.venv/bin/python -m streaming.broker.jars {pins}`"
        )


@pytest.mark.jvm
@pytest.mark.parametrize("pins", LISTS)
def test_every_list_is_of_the_jars_that_its_pins_bring(pins: Path) -> None:
    configuration = dependencies(pins)[0].get("conf", "").partition("->")[0]
    with pinned_by(pins):
        verify(jars(cast(IvyConfiguration, configuration))[0].parents[1], pins)


@pytest.mark.parametrize(
    ("report", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)', 17),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('java version "1.8.0_412"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.15" 2025-04-15', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_of_java_is_read(report: str, version: int | None) -> None:
    assert version_in(report) == version


def test_an_older_java_home_does_not_hide_a_newer_java_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java_of_version(tmp_path / "old", "1.8.0_412").parents[1]))
    newer = _java_of_version(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", f"{newer.parent}:/bin")
    assert java() == newer


def test_without_a_new_java_it_is_said_what_was_found_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _java_of_version(tmp_path, "1.8.0_412")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")
    with pytest.raises(UserError, match=r"^no Java 17\+ .*java is Java 8.*install openjdk-17-jre-headless"):
        java()


def _java_of_version(home: Path, version: str) -> Path:
    """Write a command that reports a version as Java does, on standard error."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return command
