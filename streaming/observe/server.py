"""One of the two servers, on a leash: it listens on loopback alone and never outlives who started it."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from streaming.broker import child_guard
from streaming.user_error import UserError

READY_SECONDS = 30.0
PATIENCE = 1.0


class Server:
    """A running Prometheus or Alertmanager. A context manager; leaving it ends the server."""

    def __init__(self, name: str, command: Sequence[str | Path], port: int, log: Path) -> None:
        """Start `command`, which listens on `port`, with its output in `log`."""
        self._name, self._log = name, log
        self.address = f"127.0.0.1:{port}"
        with log.open("wb") as output:
            self._leash = child_guard.start(command, output)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.address}"

    def wait(self) -> None:
        """Wait until it is ready. Raises UserError with its last words when it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers("/-/ready"):
            if self._leash.poll() is not None:
                raise UserError(f"{self._name} ended at once: {self._last_words()}")
            if time.monotonic() > deadline:
                raise UserError(f"{self._name} did not get ready in {READY_SECONDS:.0f} s")
            time.sleep(0.1)

    def answers(self, path: str) -> bool:
        """Whether it has something at a path."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it and wait until it has ended; no harm when it has ended already."""
        child_guard.let_go(self._leash)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"
