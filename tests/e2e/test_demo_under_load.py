"""The demo on a busy machine: both cores are kept busy by others, and the usual ports are in use."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.settings.address import host_and_port
from streaming.settings.configuration import Configuration

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1_200)]

BUSY_PER_CORE = 2
LONGEST = 1_000.0
"""Seconds. The demo takes 60 to 230 of them."""
EXPLAINED_AFTER = 60.0
"""Seconds from the demo's first line by which there is a finding, or a reason why there is none."""
EXPLANATION = re.compile(r"^(violation|improvement|information) |to be judged; \w+|is still starting after")


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Run processes that compute and nothing else, two for each core."""
    count = BUSY_PER_CORE * len(os.sched_getaffinity(0))
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextlib.contextmanager
def usual_ports_taken() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for address in (Configuration().metrics_address, Configuration().feeder_metrics_address):
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # somebody else has taken it
                taken.bind(host_and_port(address))
                taken.listen()
        yield


def test_the_demo_passes_on_busy_cores_with_its_usual_ports_in_use(tmp_path: Path) -> None:
    recording = tmp_path / "demo.pcap"
    command = [sys.executable, "-m", "streaming.commands.main", "demo", "--recording", str(recording)]
    with busy_cores(), usual_ports_taken():
        demo = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, check=False, cwd=tmp_path
        )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "planted offences were found, and nothing else violates a rule" in demo.stdout
    assert recording.exists()
    lines = [(float(line[1]), line[2]) for line in re.finditer(r"(?m)^ *([\d.]+) s  (.*)$", demo.stdout)]
    assert explained(lines), demo.stdout


def explained(lines: list[tuple[float, str]]) -> bool:
    """Whether a finding came within a minute, or else the screen said what the demo waits for."""
    early = [text for seconds, text in lines if seconds < EXPLAINED_AFTER]
    return any(EXPLANATION.search(text) for text in early)
