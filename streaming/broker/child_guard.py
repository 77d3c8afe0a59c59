"""A child process that never outlives its parent, however the parent ends.

A small process between the two, the guard, runs this file. Its standard input is a pipe whose other end the
parent holds. The kernel closes that end when the parent ends, even if it is killed, and the guard then ends
the child. Closing the pipe is also the regular way to end the child, so there is only one way to test. The
guard has a session of its own: Ctrl-C in the terminal reaches the parent alone, which decides what to end and
in which order.

PR_SET_PDEATHSIG is no alternative: the signal is sent as soon as the thread that started the child ends, and
it needs code to run between fork and exec, which is not safe with threads.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

# Seconds from SIGTERM to SIGKILL. An idle broker ends within a third of a second.
PATIENCE = 10.0

_STANDARD_INPUT = 0


def start(
    command: Sequence[str | Path],
    output: IO[bytes] | int,
    source: IO[bytes] | None = None,
    patience: float = PATIENCE,
) -> subprocess.Popen[bytes]:
    """Start `command` under a guard and return the guard's process.

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
    """End a guarded command and return its exit status; a command that has ended already is no error."""
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
    # End what the command started and did not end, such as the JVM of a Spark driver that was interrupted.
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


if __name__ == "__main__":
    sys.exit(_run(*sys.argv[1:]))
