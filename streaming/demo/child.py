"""Child processes: other commands of kipwatch, started in sessions of their own and always ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from streaming.failure import UserError

STOP_SECONDS = 45.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    """Ask the kernel to end this child when the thread that started it ends, however it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One running `kipwatch` command whose output goes to a log file. A context manager."""

    def __init__(
        self, arguments: Sequence[str], log: Path, stdin: BinaryIO | int = subprocess.DEVNULL
    ) -> None:
        self._name = f"kipwatch {arguments[0]}"
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming.commands.main", *arguments],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A session of its own keeps Ctrl-C from reaching it before the demo has ended it in order.
                start_new_session=True,
                preexec_fn=_end_with_parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def demand_life(self) -> None:
        """Raise UserError with its last words if the child has ended."""
        if self._process.poll() is not None:
            raise UserError(f"{self._name} ended early: {self._last_words()}")

    def wait_for(self, sign: str, seconds: float) -> None:
        """Wait until a text stands in the log. Raises UserError when it does not come in time."""
        deadline = time.monotonic() + seconds
        while sign not in self.log.read_text(errors="replace"):
            self.demand_life()
            if time.monotonic() > deadline:
                raise UserError(f"{self._name} did not get ready in {seconds:.0f} s; its log: {self.log}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ask the child to finish and wait for it; end its whole session if it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        # What it started, such as a JVM, is in its session; nothing of it may stay.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float) -> None:
        """Wait until the child has ended by itself, then make sure of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.stop()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("kipwatch: ") if lines else "it said nothing"
