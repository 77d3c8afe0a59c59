"""What the locks install runs with the oldest Python that `requires-python` admits."""

from __future__ import annotations

import tomllib
from importlib.metadata import distributions

from packaging.specifiers import SpecifierSet

from tests.repository.tree import ROOT

OLDEST = "3.11.0"


def test_the_oldest_python_is_the_one_that_is_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST.removesuffix('.0')}"


def test_every_locked_package_accepts_the_oldest_python() -> None:
    refused = {
        found.name: required
        for found in distributions()
        if (required := found.metadata["Requires-Python"]) and not SpecifierSet(required).contains(OLDEST)
    }
    assert not refused
