"""The changelog has a section for what is not released, and one for the version that is next."""

from __future__ import annotations

import re
import tomllib

from tests.repository.tree import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_unreleased_changes_stand_above_those_of_the_version() -> None:
    """A version's heading may have a date behind it."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", VERSION]
    assert len(headings) == len(set(headings))
