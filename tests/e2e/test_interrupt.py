"""Ctrl-C ends the demo with all its processes and temporary files, at any time after its first line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from streaming.broker.jars import jars
from tests.e2e.pages import free_pages

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(150)]

INTERRUPTED = 130
MARK = "KIPWATCH_TEST_MARK"


@pytest.mark.parametrize(
    "seconds", [pytest.param(0.0, marks=pytest.mark.long), 4.0, pytest.param(12.0, marks=pytest.mark.long)]
)
def test_an_interrupted_demo_leaves_nothing_behind(seconds: float, tmp_path: Path) -> None:
    jars("broker")  # fills the cache, which may remain
    mark = str(uuid.uuid4())
    application, feeder = free_pages(2)
    command = [sys.executable, "-m", "streaming.commands.main", "demo"]
    command += ["--recording", str(tmp_path / "none.pcap")]
    command += ["--metrics-address", application, "--feeder-metrics-address", feeder]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # Background jobs of a shell ignore the interrupt, and child processes would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    demo = subprocess.Popen(
        command,
        env={**os.environ, MARK: mark, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    first_line = demo.stdout.readline()
    time.sleep(seconds)
    assert marked(mark), first_line
    # Like a terminal: to the foreground process group alone.
    os.killpg(demo.pid, signal.SIGINT)
    output, _ = demo.communicate(timeout=90)
    assert demo.returncode == INTERRUPTED, output
    assert "Traceback" not in output
    assert not remaining(mark)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "none.pcap").exists()


def marked(mark: str) -> list[str]:
    """The processes whose environment contains the mark: the demo and all its descendants."""
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in environment(path)]


def environment(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def remaining(mark: str) -> list[str]:
    """The processes that remain after some seconds: Spark's Python workers end after their JVM."""
    deadline = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left
