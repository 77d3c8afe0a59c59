"""A Prometheus or Alertmanager process under a child guard, listening on loopback."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from streaming.broker.guarded_process import GuardedProcess
from streaming.user_error import UserError

READY_SECONDS = 30.0
REQUEST_SECONDS = 1.0


class Server(GuardedProcess):
    """A running Prometheus or Alertmanager. A context manager; leaving it ends the server."""

    def __init__(self, name: str, command: Sequence[str | Path], port: int, log: Path) -> None:
        """Start `command`, which listens on `port`, with its output in `log`."""
        super().__init__(command, log)
        self._name, self.address = name, f"127.0.0.1:{port}"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{self.address}"

    def wait(self) -> None:
        """Wait until it is ready. Raises UserError if it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not self.responds("/-/ready"):
            if self._guard.poll() is not None:
                raise UserError(f"{self._name} ended while it started: {self.last_line()}")
            if time.monotonic() > deadline:
                raise UserError(f"{self._name} was not ready within {READY_SECONDS:.0f} s")
            time.sleep(0.1)

    def responds(self, path: str) -> bool:
        """Whether it responds to a request for a path with success."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=REQUEST_SECONDS):
                return True
        except OSError:
            return False
