"""Records one port of the loopback interface, as root, with tcpdump installed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent


@contextmanager
def recorded(port: int, name: str) -> Iterator[None]:
    """Keep what passes meanwhile in a file beside this one."""
    # It would give up root for a user that may not write here.
    command = ["tcpdump", "-i", "lo", "-U", "-Z", "root", "-w", str(FOLDER / name), f"tcp port {port}"]
    capture = subprocess.Popen(command)
    time.sleep(2)
    try:
        yield
        time.sleep(1)
    finally:
        capture.send_signal(signal.SIGTERM)
        capture.wait(10)
