"""Whether the gauges tell of every connection, or only of those that were heard of since a restart.

A bucket of connections that holds anything has a timer, which survives a restart with its state, and reports
when it expires. So once a batch has begun later after the start than a timer takes, every one has reported.
"""

from __future__ import annotations

from streaming.query.stages import SUMMARY_INTERVAL

FIRST_BATCH = 0
"""The batch of a query that has no earlier run to take up."""


class Readiness:
    """Is told of each batch when it has been taken, with a clock in seconds that never goes back."""

    def __init__(self) -> None:
        self.is_whole = False
        self._due: float | None = None
        self._previous = 0.0

    def note(self, batch_id: int, now: float) -> None:
        """Note that a batch was taken. It began after the one before it was."""
        if self._due is None:
            self._due = now + SUMMARY_INTERVAL / 1000
            self.is_whole = batch_id == FIRST_BATCH
        elif self._previous >= self._due:
            self.is_whole = True
        self._previous = now
