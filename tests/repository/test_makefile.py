"""What the targets of the Makefile would run, as `make --dry-run` prints it."""

from __future__ import annotations

import os
import re
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
