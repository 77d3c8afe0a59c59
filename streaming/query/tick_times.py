"""When buckets tick: each at its own second of the minute, so that no batch has the ticks of all.

A timer runs in the first batch after it is due. If the next one were due an interval after that batch,
buckets that once ticked in one batch would tick together for ever, and one long batch would gather them all.
"""

from __future__ import annotations

from typing import Final

TICK_INTERVAL: Final = 60_000
"""Milliseconds between two ticks of a bucket that come on time."""
LONGEST_INTERVAL: Final = TICK_INTERVAL * 11 // 6
"""The longest time, in milliseconds, from a tick until the next one is due: after a tick that came late."""
_APART: Final = 997
"""Milliseconds between the own moments of two buckets with consecutive numbers."""


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
