"""What a Python worker of Spark keeps from task to task, and what it does about Python's garbage collector.

Spark keeps workers, but hands each task its code anew: what is to be remembered from batch to batch is kept
here. And it has each worker look through all its objects after every task, for those in cycles: what was
imported alone takes that a tenth of a second. We make no cycles. So what the first task has brought in is
left out of later looks, and what is remembered by the thousand is of types that the collector need not know.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, Final, TypeVar

Kept = TypeVar("Kept")

COLLECT_AFTER: Final = 100_000
"""Objects made before Python looks for cycles by itself; by default it is 700."""
_kept: dict[str, Any] = {}


def kept(name: str, make: Callable[[], Kept]) -> Kept:
    """Give what an earlier task made under this name, or make it; what had another name is let go."""
    if name not in _kept:
        _kept.clear()
        _kept[name] = make()
    given: Kept = _kept[name]
    return given


def begin_task() -> None:
    """Let Python look for cycles seldom; the first thing in a task."""
    gc.set_threshold(COLLECT_AFTER)


@functools.cache
def end_task() -> None:
    """Leave out of later looks what is loaded by now; the last thing in a task. The first call does all."""
    gc.collect()
    gc.freeze()
