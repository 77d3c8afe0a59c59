"""Other commands of kipwatch as child processes, each under a guard and with its own log file."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from streaming.broker.guarded_process import GuardedProcess
from streaming.user_error import UserError

STOP_SECONDS = 45.0
"""How long a command may take to finish when it is stopped."""
REPORT_SECONDS = 10.0


class Child(GuardedProcess):
    """One running `kipwatch` command. A context manager; leaving it ends the command."""

    module = "kipwatch"

    def __init__(self, arguments: Sequence[str], log: Path, source: IO[bytes] | None = None) -> None:
        """Start the command with its output in `log` and its standard input from `source`."""
        self._name = f"kipwatch {arguments[0]}"
        super().__init__([sys.executable, "-u", "-m", self.module, *arguments], log, source, STOP_SECONDS)

    @property
    def process_id(self) -> int:
        """The process ID of the guard, whose child is the command."""
        return self._guard.pid

    def check_running(self) -> None:
        """Raise UserError with the last line of the log if the command has ended."""
        if self._guard.poll() is not None:
            raise UserError(f"{self._name} ended early: {self.last_line()}")

    def wait_for(self, text: str, seconds: float, say: Callable[[str], None] | None = None) -> None:
        """Wait until the log contains a text. Raises UserError after `seconds`.

        `say` is called every ten seconds with how long it has taken.
        """
        started = time.monotonic()
        reported = 0.0
        while text not in self.log.read_text(errors="replace"):
            self.check_running()
            waited = time.monotonic() - started
            if waited > seconds:
                raise UserError(f"{self._name} was not ready within {seconds:.0f} s: {self.last_line()}")
            if say and waited - reported >= REPORT_SECONDS:
                reported = waited
                say(f"`{self._name}` is still starting after {waited:.0f} s")
            time.sleep(0.1)

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` until the command ends by itself, then stop it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(seconds)
        self.stop()

    def last_line(self) -> str:
        """Return the last line that the command has printed, without the name of the program."""
        return super().last_line().removeprefix("kipwatch: ")
