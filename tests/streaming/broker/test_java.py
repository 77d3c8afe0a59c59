"""Which Java is chosen, and the message if there is none."""

from pathlib import Path

import pytest

from streaming.broker.jars import java, version_in
from streaming.user_error import UserError


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
def test_reads_the_major_version(report: str, version: int | None) -> None:
    assert version_in(report) == version


def test_an_older_java_home_does_not_hide_a_newer_java_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java_of_version(tmp_path / "old", "1.8.0_412").parents[1]))
    newer = _java_of_version(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", f"{newer.parent}:/bin")
    assert java() == newer


def test_says_what_was_found_and_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
