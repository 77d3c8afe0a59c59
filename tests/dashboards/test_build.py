"""The generated files are what the builders make, and a drift is told by name."""

from __future__ import annotations

from pathlib import Path

from dashboards.build import REPOSITORY, artefacts, drifted, write


def test_the_committed_files_have_not_drifted() -> None:
    """Whoever changes a builder or a rule's page runs `python -m dashboards.build`."""
    assert drifted(REPOSITORY) == []


def test_building_twice_gives_the_same_bytes() -> None:
    """Else every build would be a diff."""
    assert artefacts() == artefacts()


def test_a_changed_and_a_missing_file_are_named(tmp_path: Path) -> None:
    """The check says which file to look at, and building mends it."""
    assert drifted(tmp_path) == list(artefacts())
    write(tmp_path)
    assert drifted(tmp_path) == []
    changed = tmp_path / "dashboards/generated/alerts.yml"
    changed.write_text(changed.read_text() + "# edited by hand\n")
    assert drifted(tmp_path) == ["dashboards/generated/alerts.yml"]
