"""What a Python worker of Spark does about Python's garbage collector, which looks for objects in cycles.

Spark keeps workers, and has each of them look through all its objects after every task: what was imported
alone takes it a tenth of a second. We make no cycles. So what the first task has brought in is left out of
later looks, and what is remembered from batch to batch is of types that the collector need not know.
"""

from __future__ import annotations

import functools
import gc
from typing import Final

COLLECT_AFTER: Final = 100_000
"""Objects made before Python looks for cycles by itself; by default it is 700."""


def begin_task() -> None:
    """Let Python look for cycles seldom; the first thing in a task."""
    gc.set_threshold(COLLECT_AFTER)


@functools.cache
def end_task() -> None:
    """Leave out of later looks what is loaded by now; the last thing in a task. The first call does all."""
    gc.collect()
    gc.freeze()
