"""A bucket of connections: the state that one Spark key holds, and one step of it.

A Python state round trip costs about as much for one connection as for many, so connections share
a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from expectations.conversation.connection_window import ConnectionWindow, Speakers
from expectations.conversation.unanswered import ApiVersion
from expectations.identity.claim import Claim, answered_claim
from expectations.judging.judge import Judge, open_connection
from expectations.judging.outcome import Outcome
from streaming.judging.bucket_input import FoldedWindow
from streaming.judging.judgement_cache import Routine
from streaming.judging.report import OpenConnections, Report
from streaming.judging.tally import UNKNOWN, Tally
from streaming.state.bucket import Bucket

REPUBLISH_AFTER = 600_000
"""Milliseconds after which findings that have grown are published again."""
FORGET_AFTER = 24 * 3600 * 1_000_000_000
"""Nanoseconds of capture clock without a record after which a connection is forgotten."""
SERVER_LIMIT = 1_000
"""Servers of which a bucket remembers what it told; of another one's answers it tells again."""


class BucketStep:
    """Steps buckets: judges windows, lets closed connections go, reports.

    What it remembers from one bucket to the next is how windows were judged, and changes no judgement.
    """

    def __init__(self, judge: Judge, api_names: dict[int, str], resumed_at: int = 0) -> None:
        """`resumed_at`, in milliseconds, is when the query went on after a loss of frames; else 0."""
        self._judge = judge
        self._resumed_at = resumed_at
        self._api_names = api_names
        self._routine = Routine(judge)

    def hear(self, number: int, bucket: Bucket, windows: Sequence[ConnectionWindow | FoldedWindow]) -> Report:
        """Judge windows of connections, in the order of each connection's first sequence."""
        tally = Tally(self._api_names)
        if bucket.resumed_at < self._resumed_at:
            self._resume(bucket, tally)
        for window in sorted(windows, key=_order):
            if isinstance(window, FoldedWindow):
                self._hear_folded(bucket, window, tally)
            else:
                self._hear_window(bucket, window, tally)
        return self._summarise(bucket, tally.report(number))

    def _resume(self, bucket: Bucket, tally: Tally) -> None:
        """Take all connections as interrupted where they stand: frames were lost that nobody counted."""
        bucket.resumed_at = self._resumed_at
        for state in bucket.connections.values():
            tally.add(self._judge.lose(state))

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what time asks for: tell what is open, publish what has grown, forget the silent.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            for state in bucket.connections.with_news():
                report.findings.extend(self._judge.republish(state))
                report.claims.extend(self._judge.latest_claims(state))
        bucket.connections.drop_silent(bucket.clock - FORGET_AFTER)
        return self._summarise(bucket, report)

    def _hear_folded(self, bucket: Bucket, window: FoldedWindow, tally: Tally) -> None:
        answered = _answered(bucket, window.brief.speakers)
        latest = self._routine.hear(bucket.connections, window, answered, tally)
        bucket.clock = max(bucket.clock, latest)
        if not latest:
            self._hear_window(bucket, window.observed(window.brief.moments), tally)

    def _hear_window(self, bucket: Bucket, window: ConnectionWindow, tally: Tally) -> None:
        connections, said = bucket.connections, window.observations
        answered = _answered(bucket, window)
        tally.count(said)
        heard = connections.heard(window.connection)
        if all(seen.last_sequence <= heard for seen in said):
            return
        state = connections.get(window.connection)
        if state is None:
            state = connections[window.connection] = open_connection(window)
        for outcome in self._judge.hear_each(state, window):
            outcome.claims.extend(_newly_answered(answered, window, outcome))
            tally.add(outcome)
        if len(bucket.answered) > SERVER_LIMIT:
            del bucket.answered[next(iter(bucket.answered))]
        bucket.clock = max(bucket.clock, state.conversation.latest_captured_at)
        if state.conversation.closed:
            del connections[window.connection]

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts: dict[tuple[str, str, str], int] = {}
        for (software, server), count in bucket.connections.by_software().items():
            said = (software.name, software.version) if software else (UNKNOWN, UNKNOWN)
            key = (*said, self._judge.listener(server))
            counts[key] = counts.get(key, 0) + count
        report.open_connections = [OpenConnections(*key, count) for key, count in sorted(counts.items())]
        return report


def _order(window: ConnectionWindow | FoldedWindow) -> tuple[bytes, int]:
    return window.connection, window.first_sequence


def _answered(bucket: Bucket, window: ConnectionWindow | Speakers) -> set[ApiVersion]:
    """Give the API versions of which the bucket was told that the window's server answers them."""
    return bucket.answered.setdefault(f"{window.cluster}\0{window.server}", set())


def _newly_answered(answered: set[ApiVersion], window: ConnectionWindow, outcome: Outcome) -> Iterator[Claim]:
    """Tell once, not with each connection, that a server answers an API version."""
    for api_key, api_version in sorted(outcome.answered - answered):
        yield answered_claim(window.cluster, window.server, api_key, api_version)
    answered |= outcome.answered
