"""Child processes: other commands of kipwatch, each on a leash, with a log of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from streaming.broker import child_guard
from streaming.user_error import UserError

PATIENCE = 45.0
"""Seconds that a command may take to finish what it has begun when it is told to stop."""


class Child:
    """One running `kipwatch` command. A context manager; leaving it ends the command."""

    def __init__(self, arguments: Sequence[str], log: Path, source: IO[bytes] | None = None) -> None:
        """Start the command with its output in `log` and its standard input from `source`."""
        self._name = f"kipwatch {arguments[0]}"
        self.log = log
        command = [sys.executable, "-u", "-m", "streaming.commands.main", *arguments]
        with log.open("wb") as output:
            self._guard = child_guard.start(command, output, source, PATIENCE)

    @property
    def process_id(self) -> int:
        """The process above the command."""
        return self._guard.pid

    def demand_life(self) -> None:
        """Raise UserError with its last words if the command has ended."""
        if self._guard.poll() is not None:
            raise UserError(f"{self._name} ended early: {self._last_words()}")

    def wait_for(self, sign: str, seconds: float) -> None:
        """Wait until a text stands in the log. Raises UserError when it does not come in time."""
        deadline = time.monotonic() + seconds
        while sign not in self.log.read_text(errors="replace"):
            self.demand_life()
            if time.monotonic() > deadline:
                raise UserError(f"{self._name} did not get ready in {seconds:.0f} s: {self._last_words()}")
            time.sleep(0.1)

    def wait(self, seconds: float) -> None:
        """Wait until the command has ended by itself, at most so long, then make sure of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(seconds)
        self.stop()

    def stop(self) -> None:
        """Tell the command to finish and wait until it has; no harm when it has ended already."""
        child_guard.stop(self._guard)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("kipwatch: ") if lines else "it said nothing"
