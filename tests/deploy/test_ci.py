"""The recipes for the CI of a client: their command runs tests behind relays, and its results are kept."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kipwatch.greeted_broker import BROKEN, NAMES, greeted_broker, greeting
from tests.repository.tree import ROOT

RECIPES = ROOT / "deploy" / "ci"
TESTS = "./integration-tests"
CLIENT = """#!/bin/sh
exec {python} -c "
import os, socket
host, port = os.environ['KIPWATCH_BOOTSTRAP'].split(':')
with socket.create_connection((host, int(port))) as connection:
    connection.sendall(bytes.fromhex('{greeting}'))
    assert connection.recv(4)
"
"""


def recipe(name: str) -> Any:
    return yaml.safe_load((RECIPES / name).read_text())


def on_github() -> tuple[list[str], list[str]]:
    """The commands, and the paths that are kept."""
    steps = recipe("github-workflow.yml")["jobs"]["wire"]["steps"]
    (kept,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert kept["if"] == "always()"
    return [step["run"] for step in steps if "run" in step], kept["with"]["path"].split()


def on_gitlab() -> tuple[list[str], list[str]]:
    """The commands, and the paths that are kept."""
    job = recipe("gitlab-ci.yml")["wire"]
    artifacts = job["artifacts"]
    assert artifacts["when"] == "always"
    assert artifacts["reports"]["junit"] in artifacts["paths"]
    return job["script"], artifacts["paths"]


@pytest.mark.slow
@pytest.mark.parametrize("read", [on_github, on_gitlab])
@pytest.mark.parametrize(("manner", "status"), [("well", 0), ("badly", 1)])
def test_the_command_fails_on_a_violation_and_leaves_what_is_kept(
    tmp_path: Path, read: Any, manner: str, status: int
) -> None:
    commands, kept = read()
    (command,) = (shlex.split(line) for line in commands if line.startswith("kipwatch "))
    assert command[-1] == TESTS
    script = tmp_path / TESTS
    script.write_text(CLIENT.format(python=sys.executable, greeting=greeting(NAMES[manner]).hex()))
    script.chmod(0o700)
    with greeted_broker() as broker:
        command[command.index("--bootstrap") + 1] = broker
        done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=False)
    assert done.returncode == status
    report, evidence = (tmp_path / name for name in kept)
    assert ('<failure type="violation"' in report.read_text()) is bool(status)
    assert [BROKEN.replace("/", "-") in path.name for path in evidence.glob("*.pcap")] == [True] * status
