"""A guarded child ends with its parent, and not before."""

import os
import subprocess
import sys
import time
from pathlib import Path

from streaming.broker import child_guard
from tests.waiting import until

# Prints its process ID when it runs, then waits to be ended.
SLEEPER = ["sh", "-c", "echo $$; exec sleep 60"]


def test_stopping_ends_the_child() -> None:
    process = child_guard.start(SLEEPER, subprocess.PIPE)
    child = _announced(process)
    assert _is_alive(child)
    child_guard.stop(process)
    assert not _is_alive(child)
    child_guard.stop(process)


def test_the_exit_status_is_that_of_a_child_that_ends_by_itself() -> None:
    process = child_guard.start(["sh", "-c", "exit 3"], subprocess.DEVNULL)
    assert process.wait(10) == 3
    assert child_guard.stop(process) == 3


def test_the_child_ends_when_its_parent_is_killed() -> None:
    program = (
        "import time; from streaming.broker import child_guard; "
        f"child_guard.start({SLEEPER!r}, None); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child = _announced(parent)
    assert _is_alive(child)
    parent.kill()
    parent.wait()
    until(lambda: not _is_alive(child), 5.0, every=0.02)


def test_the_child_outlives_the_thread_that_started_it() -> None:
    program = (
        "import threading, time; from streaming.broker import child_guard\n"
        f"starter = threading.Thread(target=child_guard.start, args=({SLEEPER!r}, None))\n"
        "starter.start(); starter.join(); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child = _announced(parent)
    time.sleep(0.3)
    assert _is_alive(child)
    parent.kill()
    parent.wait()
    until(lambda: not _is_alive(child), 5.0, every=0.02)


def test_the_terminals_interrupt_does_not_reach_the_child() -> None:
    process = child_guard.start(SLEEPER, subprocess.PIPE)
    try:
        assert os.getsid(_announced(process)) != os.getsid(0)
    finally:
        child_guard.stop(process)


def test_of_a_stack_trace_the_innermost_cause_is_told() -> None:
    trace = """Exception in thread "main" java.io.UncheckedIOException: cannot write
\tat kafka.tools.StorageTool.main(StorageTool.scala:30)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 8 more

"""
    assert child_guard.last_line(trace) == "Caused by: java.io.IOException: No space left on device"
    assert child_guard.last_line("\n") == "it printed nothing"


def _announced(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends while it is read
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
