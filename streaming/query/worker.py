"""Spark's Python workers: what survives from task to task, garbage collection, stored bytes, and timers.

Spark reuses worker processes but unpickles the code for each task, so objects that should survive from batch
to batch are cached here. After every task Spark runs a full garbage collection, which takes a tenth of a
second for imported modules alone. Therefore tasks make collections rare, objects of the first task are
frozen, which excludes them from later collections, and caches with thousands of entries use types that are
not tracked.

Stored bytes are values in Spark's state store under the current key. Each access is a round trip to the JVM.

Each bucket has a timer that ticks at its own moment of the minute, so that no batch has the ticks of all. A
timer runs in the first batch after it is due. If the next one were due an interval after that batch, buckets
that once ticked in one batch would tick together for ever, and one long batch would gather them all.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pyspark.sql.streaming import StatefulProcessorHandle

TICK_INTERVAL: Final = 60_000
"""Milliseconds between two ticks of a bucket that come on time."""
LONGEST_INTERVAL: Final = TICK_INTERVAL * 11 // 6
"""The longest time, in milliseconds, from a tick until the next one is due: after a tick that came late."""
_APART: Final = 37_082
"""Milliseconds between the own moments of two buckets with consecutive numbers.

The golden section of the interval: it spreads any number of buckets over all of it.
"""

Cached = TypeVar("Cached")

_cache: dict[str, Any] = {}


def cached_in_worker(name: str, make: Callable[[], Cached]) -> Cached:
    """Return the object that an earlier task made under this name, or make it and drop all others."""
    if name not in _cache:
        _cache.clear()
        _cache[name] = make()
    cached: Cached = _cache[name]
    return cached


@functools.cache
def end_task() -> None:
    """Exclude all existing objects from later collections. Called last in a task; later calls do nothing."""
    gc.collect()
    gc.freeze()


class StoredBytes:
    """One value. A write is skipped if the bytes are those that were read last."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._state = handle.getValueState(name, "state binary")
        self._read: bytes | None = None

    def read(self) -> bytes | None:
        """Return the stored bytes, None if there are none."""
        stored = self._state.get()
        self._read = bytes(stored[0]) if stored else None
        return self._read

    def write(self, packed: bytes) -> None:
        """Store bytes, unless they are those that `read` returned last."""
        if packed != self._read:
            self._state.update((packed,))

    def clear(self) -> None:
        """Remove the stored bytes."""
        self._state.clear()


class StoredPages:
    """Numbered values. Each is read on its own."""

    def __init__(self, handle: StatefulProcessorHandle, name: str) -> None:
        self._state = handle.getMapState(name, "number int", "state binary")

    def read(self, number: int) -> bytes | None:
        """Return the bytes under a number, None if there are none."""
        stored = self._state.getValue((number,))
        return bytes(stored[0]) if stored else None

    def write(self, number: int, packed: bytes) -> None:
        """Store bytes under a number."""
        self._state.updateValue((number,), (packed,))

    def remove(self, number: int) -> None:
        """Remove the bytes under a number."""
        self._state.removeKey((number,))

    def clear(self) -> None:
        """Remove all."""
        self._state.clear()


def first_tick(bucket: int, now: int, interval: int = TICK_INTERVAL) -> int:
    """Return the first moment after `now` that is the bucket's own, in milliseconds since the epoch."""
    own = bucket * _APART % interval
    return now + 1 + (own - now - 1) % interval


def next_tick(bucket: int, now: int, interval: int = TICK_INTERVAL) -> int:
    """Return when a bucket that ticks now ticks again: at its own moment, after five sixths of an interval.

    After a tick that is late by more than a sixth of an interval, the next one is more than an interval away:
    what a tick waits for has time to arrive.
    """
    return first_tick(bucket, now + interval * 5 // 6, interval)
