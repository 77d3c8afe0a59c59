"""Spark's Python workers: a cache that survives from task to task, and settings of the garbage collector.

Spark reuses worker processes but unpickles the code for each task, so objects that should survive from
batch to batch are cached here. After every task Spark runs a full garbage collection, which takes a tenth
of a second for imported modules alone. Therefore objects of the first task are frozen, which excludes them
from later collections, and caches with thousands of entries use types that are not tracked.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

from streaming.garbage import make_collections_rare

Cached = TypeVar("Cached")

_cache: dict[str, Any] = {}


def cached_in_worker(name: str, make: Callable[[], Cached]) -> Cached:
    """Return the object that an earlier task made under this name, or make it and drop all others."""
    if name not in _cache:
        _cache.clear()
        _cache[name] = make()
    cached: Cached = _cache[name]
    return cached


def begin_task() -> None:
    """Make garbage collections rare. Called first in a task."""
    make_collections_rare()


@functools.cache
def end_task() -> None:
    """Exclude all existing objects from later collections. Called last in a task; later calls do nothing."""
    gc.collect()
    gc.freeze()
