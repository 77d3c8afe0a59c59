"""Whether the query still moves: what /healthz answers to whoever starts a hung process again.

It says no before the alert on a stalled query fires: a supervisor may mend it before anybody is woken.
"""

from __future__ import annotations

STALLED_AFTER = 60.0
"""Seconds without a finished batch after which the application is no longer healthy."""
STARTED_AFTER = 300.0
"""Seconds that the first batch may take, in which Spark starts and may take up much that waits."""


def is_healthy(started_at: float, latest_batch_at: float, now: float) -> bool:
    """Say so of a query whose latest batch was finished at a time, 0 before the first; times in seconds."""
    if latest_batch_at:
        return now - latest_batch_at < STALLED_AFTER
    return now - started_at < STARTED_AFTER
