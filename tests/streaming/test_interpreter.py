"""An interrupt is neither lost nor early while modules are loaded."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Iterator

import pytest

from streaming.interpreter import interrupt_held


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
