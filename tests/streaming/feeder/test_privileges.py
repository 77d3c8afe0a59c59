from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures import real_clients

CRASH = "import os; os.abort()"
FORBIDDEN = "from streaming.feeder.privileges import forbid_core_dumps; forbid_core_dumps(); "
SHOWN = "import ctypes, resource; print(ctypes.CDLL(None).prctl(3), resource.getrlimit(resource.RLIMIT_CORE))"


def test_a_process_with_secrets_is_not_dumped() -> None:
    shown = [
        subprocess.run(
            [sys.executable, "-c", before + SHOWN], capture_output=True, text=True, check=True
        ).stdout
        for before in ("", FORBIDDEN)
    ]
    assert shown[0].startswith("1 ")
    assert shown[1] == "0 (0, 0)\n"


def test_a_crash_leaves_no_core(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen([sys.executable, "-c", FORBIDDEN + CRASH], cwd=tmp_path, env=environment)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", [["check"], ["decode"], ["feed", "--dry-run"]])
def test_captures_are_read_without_core_dumps(command: list[str]) -> None:
    """A pcapng may contain secrets, and no flag tells so beforehand."""
    main = "import sys; from streaming.commands.main import main; main(sys.argv[1:]); "
    arguments = [*command, str(real_clients.CAPTURE)]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ran = subprocess.run(
        [sys.executable, "-c", main + SHOWN, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert ran.stdout.splitlines()[-1] == "0 (0, 0)"
