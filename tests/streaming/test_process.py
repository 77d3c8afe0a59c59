"""How processes run: a delayed Ctrl-C, and no core dumps where secrets are read."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.process import interrupt_held
from tests.captures import real_clients

CRASH = "import os; os.abort()"
DUMPED = "import resource as r; r.setrlimit(r.RLIMIT_CORE, (r.getrlimit(r.RLIMIT_CORE)[1],) * 2); "
"""Lets a crash leave a core as far as the hard limit permits, which most systems do not do by default."""
FORBIDDEN = "from streaming.process import forbid_core_dumps; forbid_core_dumps(); "
SHOWN = "import ctypes, resource; print(ctypes.CDLL(None).prctl(3), resource.getrlimit(resource.RLIMIT_CORE))"


@pytest.fixture(autouse=True)
def python_handler() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, though background jobs of a shell ignore it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def press_in_a_callback() -> None:
    """Send this process a SIGINT from a function that C code calls, as llvmlite calls Python's."""

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    ctypes.CFUNCTYPE(None)(interrupted)()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_c_code_discards_an_interrupt() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        press_in_a_callback()
        return
    pytest.fail("the interrupt came through: interrupt_held is not needed any more")


def test_a_held_interrupt_comes_when_the_block_ends() -> None:
    went_on = False
    with pytest.raises(KeyboardInterrupt), interrupt_held():
        press_in_a_callback()
        went_on = True
    assert went_on


def test_a_held_interrupt_may_arrive_at_another_thread() -> None:
    presses = threading.Thread(target=lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), interrupt_held():
        presses.start()
        presses.join()


def test_an_error_within_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="own"), interrupt_held():
        raise ValueError("own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_with_secrets_is_not_dumped() -> None:
    shown = [
        subprocess.run(
            [sys.executable, "-c", before + SHOWN], capture_output=True, text=True, check=True
        ).stdout
        for before in ("", FORBIDDEN)
    ]
    assert shown[0].startswith("1 ")
    assert shown[1] == "0 (0, 0)\n"


def test_a_crash_leaves_no_core(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen(
        [sys.executable, "-c", DUMPED + FORBIDDEN + CRASH], cwd=tmp_path, env=environment
    )
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", [["check"], ["decode"], ["feed", "--dry-run"]])
def test_captures_are_read_without_core_dumps(command: list[str]) -> None:
    """A pcapng may contain secrets, and no flag tells so beforehand."""
    main = "import sys; from streaming.commands.main import main; main(sys.argv[1:]); "
    arguments = [*command, str(real_clients.CAPTURE)]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ran = subprocess.run(
        [sys.executable, "-c", main + SHOWN, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert ran.stdout.splitlines()[-1] == "0 (0, 0)"
