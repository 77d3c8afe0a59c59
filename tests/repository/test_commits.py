"""The check of commit messages that `make lint` runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.repository.commits import FIRST_AFTER, faults, faulty, main
from tests.repository.tree import ROOT

GOOD = "A subject\n\nThe reason.\n"
LONG = "s" * 73 + "\n\nThe reason.\n"
BARE = "A subject\n"


def commit(folder: Path, message: str) -> str:
    """Commit and return the ID."""
    git = ["git", "-c", "user.name=one", "-c", "user.email=one@example.org"]
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", message], cwd=folder, check=True)
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, str]:
    """A repository, and the ID of its second commit; the first two would be faulty."""
    folder = tmp_path / "all"
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    commit(folder, LONG)
    second = commit(folder, BARE)
    commit(folder, GOOD)
    return folder, second


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (GOOD, 0),
        ("s" * 72 + "\n\nThe reason.", 0),
        (GOOD + "# a comment of git\n", 0),
        (LONG, 1),
        (BARE, 1),
        ("A subject\nthat goes on\n\nThe reason.", 1),
        ("A subject\n\n# Changes to be committed:\n", 1),
        ("", 1),
    ],
)
def test_faults_of_a_message(message: str, number: int) -> None:
    assert len(faults(message)) == number


def test_commits_after_the_fixed_one_are_checked(history: tuple[Path, str]) -> None:
    folder, second = history
    assert faulty(folder, second) == []
    bad = commit(folder, BARE)
    assert faulty(folder, second) == [f"{bad[:10]} 'A subject': it has no body, which says why"]


def test_of_a_shallow_clone_all_commits_are_checked(history: tuple[Path, str], tmp_path: Path) -> None:
    folder, second = history
    commit(folder, LONG)
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{folder}", shallow], check=True)
    assert len(faulty(shallow, second)) == 1


def test_a_tree_without_git_or_with_another_history_has_nothing_to_check(
    history: tuple[Path, str], tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    assert faulty(tmp_path / "tree", FIRST_AFTER) == []
    assert faulty(history[0], FIRST_AFTER) == []


def test_the_hook_checks_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "message"
    path.write_text(GOOD)
    assert main([str(path)]) == 0
    path.write_text(LONG)
    assert main([str(path)]) == 1
    assert "73 characters" in capsys.readouterr().out


def test_hooks_come_from_this_repository_alone() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {each["repo"] for each in repositories} == {"local"}
    hooks = [hook["entry"] for each in repositories for hook in each["hooks"]]
    assert hooks
    assert [entry for entry in hooks if not entry.startswith(".venv/bin/")] == []
