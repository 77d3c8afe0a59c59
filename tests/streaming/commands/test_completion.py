"""Completion in a shell: bash itself is asked what it would offer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.commands.main import COMMANDS
from tests.streaming.commands.ran import Kipwatch

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
function=$(complete -p kipwatch | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function kipwatch "${@: -1}" "${@: -2:1}"
echo "${COMPREPLY[@]}"
"""


@pytest.fixture
def offered(kipwatch: Kipwatch, tmp_path: Path) -> Callable[..., list[str]]:
    """What bash offers in place of the last word."""
    script = tmp_path / "completion.bash"
    script.write_text(kipwatch("completion", "bash").output)

    def ask(*words: str) -> list[str]:
        command = ["bash", "-c", ASK, "ask", str(script), "kipwatch", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()

    return ask


def test_commands_and_flags_are_completed(offered: Callable[..., list[str]]) -> None:
    assert set(COMMANDS) <= set(offered(""))
    assert offered("doc") == ["doctor"]
    assert offered("check", "--js") == ["--json", "--jsonl"]


def test_files_are_completed_where_a_file_is_meant(
    offered: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.pcap").touch()
    monkeypatch.chdir(tmp_path)
    assert offered("check", "mi") == ["mine.pcap"]


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_get_a_script(kipwatch: Kipwatch, shell: str) -> None:
    ran = kipwatch("completion", shell)
    assert ran.status == 0
    assert "doctor" in ran.output


def test_an_unknown_shell_is_one_line(kipwatch: Kipwatch) -> None:
    ran = kipwatch("completion", "ksh")
    assert ran.status == 2
    assert len(ran.errors.splitlines()) == 1
