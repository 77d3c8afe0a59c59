"""The locks: they agree, those of the runtime cover pyproject.toml with digests, and are what deploys."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.tree import ROOT

RUNTIME, DEVELOPERS = ROOT / "requirements-run.lock", ROOT / "requirements.lock"
FEEDER = ROOT / "requirements-feed.lock"
PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?P<digests>(?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})*)$", re.M
)
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: Path) -> dict[str, re.Match[str]]:
    """Return the pins of a lock by package; all other lines are comments."""
    text = lock.read_text()
    assert not re.sub(r"#.*", "", PIN.sub("", text)).strip()
    return {canonicalize_name(pin["name"]): pin for pin in PIN.finditer(text)}


def needed(*extras: str) -> list[Requirement]:
    project = PYPROJECT["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for each in lists for line in each]


def test_every_package_of_the_runtime_has_digests() -> None:
    for lock in (RUNTIME, FEEDER):
        assert [name for name, pin in pins(lock).items() if not pin["digests"]] == []
        assert len(pins(lock)) > 20


def test_the_feeder_gets_a_part_of_the_runtime() -> None:
    runtime = {name: pin["version"] for name, pin in pins(RUNTIME).items()}
    feeder = {name: pin["version"] for name, pin in pins(FEEDER).items()}
    assert feeder.items() <= runtime.items()
    assert not {"pyspark", "pandas", "great-expectations"} & feeder.keys()


def test_both_locks_name_the_same_versions() -> None:
    developers = {name: pin["version"] for name, pin in pins(DEVELOPERS).items()}
    runtime = {name: pin["version"] for name, pin in pins(RUNTIME).items()}
    assert {name: each for name, each in runtime.items() if developers.get(name, each) != each} == {}
    # The rest is what builds the wheel.
    building = ["editables", "hatchling", "tomlkit", "trove-classifiers"]
    assert sorted(runtime.keys() - developers.keys()) == building


@pytest.mark.parametrize(
    ("lock", "extras"),
    [(FEEDER, ()), (RUNTIME, ("run", "audit")), (DEVELOPERS, ("run", "audit", "dashboards", "dev"))],
)
def test_a_lock_covers_what_pyproject_asks_for(lock: Path, extras: tuple[str, ...]) -> None:
    pinned = pins(lock)
    for requirement in needed(*extras):
        version = pinned[canonicalize_name(requirement.name)]["version"]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_the_runtime_lock_covers_what_builds_the_wheel() -> None:
    assert {Requirement(line).name for line in PYPROJECT["build-system"]["requires"]} <= pins(RUNTIME).keys()


def test_developers_tools_are_not_in_the_runtime() -> None:
    assert not {"pytest", "mypy", "atheris", "pip-tools"} & pins(RUNTIME).keys()


@pytest.mark.parametrize(
    ("path", "lock"),
    [
        ("deploy/image/install.sh", r'"\$lock"'),
        ("deploy/systemd/kipwatch-feeder.service", r"requirements-feed\.lock"),
        ("deploy/systemd/kipwatch.service", r"requirements-run\.lock"),
    ],
)
def test_what_is_deployed_installs_by_digests_and_builds_with_them(path: str, lock: str) -> None:
    text = (ROOT / path).read_text()
    assert re.search(rf"pip install .*--require-hashes .*{lock}", text)
    assert re.search(r"pip install .*--no-deps --no-build-isolation \.$", text, re.M)
