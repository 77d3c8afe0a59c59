"""How Python runs in our processes: garbage is collected rarely, and no Ctrl-C is lost in an import."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COLLECT_AFTER: Final = 100_000
"""New objects after which Python looks for reference cycles; the default is 700."""


def make_collections_rare() -> None:
    """Let this process look for reference cycles rarely.

    Our code creates none, so each look at long-lived objects, such as those of open connections, is in vain.
    """
    gc.set_threshold(COLLECT_AFTER)


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Delay a SIGINT that arrives within the block until the block ends. Only for the main thread.

    C code that calls back into Python while a module is loaded, such as llvmlite's, discards a
    KeyboardInterrupt that is raised there: the program would go on as if nobody had pressed Ctrl-C. A signal
    mask would not do, since the kernel gives the signal to any thread that does not mask it.
    """
    arrived: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if arrived:
        signal.raise_signal(signal.SIGINT)
