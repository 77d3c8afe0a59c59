"""The page that new users begin with: its commands run in a fresh clone, and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.tree import ROOT, copy_files, files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = (ROOT / "docs/first-five-minutes.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, flags=re.DOTALL)
MARK = "-- end of a block --"


def test_the_commands_run_and_print_what_the_page_says(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_files(clone, files())
    script = tmp_path / "commands.sh"
    script.write_text("set -e\n" + "".join(f"{commands}echo '{MARK}'\n" for commands, _ in BLOCKS))
    # python3 is the one that these tests run with.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", script],
        cwd=clone,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(MARK)
    for (commands, expected), output in zip(BLOCKS, printed, strict=False):
        for line in expected.splitlines():
            assert line in output, commands
    assert "<html" in (clone / "fleet.html").read_text()


def test_most_of_the_page_is_run() -> None:
    """Else a change of its form would leave nothing to test."""
    assert len(BLOCKS) == 7
    assert [expected for _, expected in BLOCKS].count("") < 5
