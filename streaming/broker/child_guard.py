"""Child processes that never outlive their parent, however the parent ends.

A small process between the two, the guard, runs this file. Its standard input is a pipe whose other end the
parent holds. When the parent ends, even if it is killed, the kernel closes that end, and the guard ends the
child. The parent closes the pipe itself to end the child regularly, so only one way needs testing. The guard
has a session of its own: Ctrl-C in the terminal reaches the parent alone, which decides what to end and in
which order.

PR_SET_PDEATHSIG is no alternative: the signal is sent as soon as the thread that started the child ends, and
it needs code to run between fork and exec, which is not safe with threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

# Seconds from SIGTERM to SIGKILL. An idle broker ends within a third of a second.
PATIENCE = 10.0

_STANDARD_INPUT = 0
_IN_A_TRACE = ("\tat ", "\t... ")
"""How the lines of a stack trace of Java begin, after those that name an error."""


def start(
    command: Sequence[str | Path],
    output: IO[bytes] | int,
    source: IO[bytes] | None = None,
    patience: float = PATIENCE,
) -> subprocess.Popen[bytes]:
    """Start `command` under a guard. Returns the guard's process.

    Output and errors of the command go to `output`; its input comes from `source`, or is empty. The guard
    ends when the command ends, with its exit status. `stop` ends both: the command gets SIGTERM and,
    `patience` seconds later, SIGKILL.
    """
    descriptors = [source.fileno()] if source else []
    own = [str(patience), str(descriptors[0] if descriptors else subprocess.DEVNULL)]
    return subprocess.Popen(
        [sys.executable, "-I", __file__, *own, *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=descriptors,
    )


def stop(guard: subprocess.Popen[bytes]) -> int:
    """End a guarded command. Returns its exit status, also if it has ended already."""
    assert guard.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        guard.stdin.close()
    return guard.wait()


def _run(patience: str, source: str, *command: str) -> int:
    child = subprocess.Popen(command, stdin=int(source), start_new_session=True)
    if int(source) != subprocess.DEVNULL:
        os.close(int(source))
    threading.Thread(target=_end_with_parent, args=(child, float(patience)), daemon=True).start()
    status = child.wait()
    # End what the command has left running, such as the JVM of an interrupted Spark driver.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    return status


def _end_with_parent(child: subprocess.Popen[bytes], patience: float) -> None:
    while os.read(_STANDARD_INPUT, 1):
        pass
    child.terminate()
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        child.kill()


class GuardedProcess:
    """A command under a guard, with its output in a log file. A context manager that ends the command."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        source: IO[bytes] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Start the command as `start` does."""
        self.log = log
        with log.open("wb") as output:
            self._guard = start(command, output, source, patience)

    def stop(self) -> int:
        """End the command, unless it has ended, and wait until it has. Returns its exit status."""
        return stop(self._guard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def last_line(self) -> str:
        """Return the last line that the command has printed."""
        return last_line(self.log.read_text(errors="replace"))


def last_line(text: str) -> str:
    """Return the last line that a program has printed, for an error message.

    Of a stack trace of Java that is the innermost cause.
    """
    told = [line for line in text.splitlines() if line.strip() and not line.startswith(_IN_A_TRACE)]
    return told[-1] if told else "it printed nothing"


if __name__ == "__main__":
    sys.exit(_run(*sys.argv[1:]))
