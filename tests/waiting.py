"""Waits for a condition, instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

Found = TypeVar("Found")
_SHOWN = 2_000
"""Characters of a log's end that a failure shows."""


class Running(Protocol):
    """A process with a log, such as `streaming.demo.road.Child`."""

    @property
    def log(self) -> Path:
        """The file that it writes into."""

    def check_running(self) -> None:
        """Raise if it has ended."""


def until(
    condition: Callable[[], Found], seconds: float = 20.0, *needed: Running, every: float = 0.1
) -> Found:
    """Return what a condition returns, once that is true. Fails after `seconds`, or if a process has ended.

    It is asked every so many seconds. A failure shows the ends of the logs of the processes that are needed.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        for process in needed:
            process.check_running()
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s{_logs_of(needed)}"
        time.sleep(every)
    return found


def _logs_of(processes: tuple[Running, ...]) -> str:
    return "".join(f"\n{each.log.read_text(errors='replace')[-_SHOWN:]}" for each in processes)
