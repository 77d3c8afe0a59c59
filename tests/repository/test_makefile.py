"""What the targets of the Makefile would run, as `make --dry-run` prints it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository.tree import ROOT


def dry_run(*arguments: str) -> str:
    """The commands of a target in a fresh copy, which has no .venv."""
    return subprocess.run(
        ["make", "--dry-run", *arguments], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    ).stdout


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Makefile", "requirements.lock", "requirements-run.lock", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr("tests.repository.test_makefile.ROOT", tmp_path)
    # The tests run below make, too, whose flags would be handed on.
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("fresh")
def test_the_demo_installs_what_kipwatch_runs_on_and_no_tools_of_contributors() -> None:
    installs = re.findall(r"pip install .*", dry_run("demo"))
    assert installs == [
        "pip install --require-hashes --requirement requirements-run.lock",
        "pip install --no-deps --no-build-isolation --editable .",
    ]
    assert "--requirement requirements.lock" in dry_run("setup")


@pytest.mark.usefixtures("fresh")
def test_the_demo_says_what_it_does_before_each_long_step() -> None:
    commands = [line for line in dry_run("demo").splitlines() if not line.startswith("\t")]
    place = next(number for number, line in enumerate(commands) if "pip install" in line)
    assert 'echo "kipwatch: ' in "\n".join(commands[max(0, place - 2) : place])
    # It says itself what it does.
    assert [line for line in commands if line.endswith("kipwatch prepare")]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only programs there are: `apt-get` notes what it is asked for."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "grep").symlink_to(shutil.which("grep") or "")
    written(folder / "apt-get", 'echo "apt-get $*"')
    return folder


def written(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def made_java(programs: Path, user: int, home: str = "") -> tuple[int, str]:
    """The status and output of the demo's first step, for a user."""
    written(programs / "id", f"echo {user}")
    ran = subprocess.run(
        [shutil.which("make") or "", "--no-print-directory", "java"],
        cwd=ROOT,
        env={"PATH": str(programs), "JAVA_HOME": home},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout


@pytest.mark.usefixtures("fresh")
def test_the_demo_gets_java_before_it_downloads_anything(programs: Path) -> None:
    commands = dry_run("demo")
    assert 0 <= commands.find("default-jre-headless") < commands.find("pip install")
    told = "the demo needs Java 17 or newer: apt-get install --no-install-recommends default-jre-headless\n"
    assert made_java(programs, 1000) == (2, told)
    status, printed = made_java(programs, 0)
    assert status == 0
    assert printed.splitlines() == [
        "apt-get update -qq",
        "apt-get install -qq --yes --no-install-recommends default-jre-headless",
    ]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("version", "status"), [("1.8.0_412", 2), ("11.0.2", 2), ("17.0.15", 0), ("25-ea", 0)]
)
def test_the_java_that_is_there_suffices_if_it_is_new_enough(
    programs: Path, version: str, status: int
) -> None:
    """Wherever it is: an old one in JAVA_HOME hides no newer one on PATH."""
    report = f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"
    written(programs / "java", report)
    assert made_java(programs, 1000)[0] == status
    home = programs.parent / "home"
    (home / "bin").mkdir(parents=True)
    written(home / "bin" / "java", "echo 'java version \"1.8.0_412\"' >&2")
    assert made_java(programs, 1000, str(home))[0] == status


@pytest.mark.usefixtures("fresh")
def test_flags_are_passed_on_to_the_demo() -> None:
    assert dry_run("demo", "ARGS=--keep --relay").rstrip().endswith("kipwatch demo --keep --relay")


@pytest.mark.usefixtures("fresh")
def test_compiled_modules_are_kept_whatever_the_environment_says() -> None:
    """Some machines set it for all processes; the fast tests then take a tenth longer."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", "--no-print-directory", "--eval", "shown: ; @env", "shown"]
    shown = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "PATH=" in shown and "PYTHONDONTWRITEBYTECODE" not in shown


@pytest.mark.usefixtures("fresh")
def test_a_release_has_images_if_an_engine_is_named() -> None:
    """Before the checksums, which cover them."""
    assert "build-arg" not in dry_run("release", "HELM=true")
    commands = dry_run("release", "HELM=true", "ENGINE=podman").splitlines()
    saved = [
        re.findall(r"--output dist/(\S+)-\d\S*\.tar kipwatch", line) for line in commands if " save " in line
    ]
    assert saved == [["kipwatch-feeder"], ["kipwatch-application"]]
    assert "sha256sum" in commands[-1]
