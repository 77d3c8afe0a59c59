"""The status of the query: whether it makes progress (/healthz), whether its gauges are complete (/readyz).

A query that waits for Kafka is healthy: a restart would change nothing, and would cost the time it takes.
A bucket of connections that holds any state has a timer. The timer survives a restart together with the
state, and the bucket reports when it expires. So the gauges cover every connection once a batch has begun
more than one timer interval after the start.
"""

from __future__ import annotations

from streaming.query.stages import SUMMARY_INTERVAL

STALLED_AFTER = 60.0
"""Seconds without a finished batch, while Kafka answers, after which the application is unhealthy.

Shorter than the delay of the alert on a stalled query: a supervisor can restart it before that fires."""
STARTED_AFTER = 300.0
"""Seconds that the first batch may take: Spark starts in it, and it may read a long backlog."""
FIRST_BATCH = 0
"""The batch id of a query that has no earlier run to continue."""


def is_healthy(started_at: float, latest_batch_at: float, kafka_away_at: float, now: float) -> bool:
    """Return whether the query makes progress, or waits for Kafka.

    Times are seconds. `latest_batch_at` is when the latest batch finished, 0 before the first one, and
    `kafka_away_at` when Kafka was last seen not to answer, 0 if never.
    """
    if latest_batch_at:
        return now - max(latest_batch_at, kafka_away_at) < STALLED_AFTER
    return now - max(started_at, kafka_away_at) < STARTED_AFTER


class Readiness:
    """Whether the gauges cover every connection, or only those seen since a restart."""

    def __init__(self) -> None:
        self.is_ready = False
        self._due: float | None = None
        self._previous = 0.0

    def record_batch(self, batch_id: int, now: float) -> None:
        """Record that a batch was processed at `now`, in seconds of a monotonic clock.

        A batch begins after the previous one was processed.
        """
        if self._due is None:
            self._due = now + SUMMARY_INTERVAL / 1000
            self.is_ready = batch_id == FIRST_BATCH
        elif self._previous >= self._due:
            self.is_ready = True
        self._previous = now
