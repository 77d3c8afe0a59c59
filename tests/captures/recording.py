"""Captures one port of the loopback interface, as root, with tcpdump installed."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent
STARTS_WITHIN = 30.0
SETTLES = 1.0
"""Seconds for the last packets, and for the broker to log what it served."""


class LostPacketsError(Exception):
    """The kernel dropped packets, so the capture is not whole."""


def recorded(port: int, name: str) -> AbstractContextManager[None]:
    """Keep what passes meanwhile in a file beside this one."""
    return captured(port, FOLDER / name)


@contextmanager
def captured(port: int, capture: Path, *others: int) -> Iterator[None]:
    """Keep what passes a port, and others, in a file. Raises LostPacketsError if any of it was lost."""
    # It would give up root for a user that may not write here.
    command = ["tcpdump", "-i", "lo", "-U", "-n", "-B", "65536", "-Z", "root", "-w", str(capture)]
    with tempfile.NamedTemporaryFile() as output:
        log = Path(output.name)
        ports = " or ".join(f"tcp port {each}" for each in (port, *others))
        process = subprocess.Popen([*command, ports], stderr=output)
        try:
            _await(log, "listening on")
            yield
            time.sleep(SETTLES)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
        dropped = re.search(r"(\d+) packets dropped by kernel", log.read_text())
    if dropped and int(dropped[1]):
        raise LostPacketsError(f"{dropped[1]} packets were dropped")


def _await(log: Path, text: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while text not in log.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f"tcpdump did not start: {log.read_text()}")
        time.sleep(0.05)
