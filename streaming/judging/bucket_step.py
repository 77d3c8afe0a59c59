"""One step of a bucket: judges the windows of its connections, removes closed ones, and reports."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.retention import KEPT_FOR, MILLISECOND, REPUBLISH_AFTER
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.window import Window
from expectations.identity.claim import united
from expectations.judging.judge import Judge, open_connection
from expectations.judging.symbol import Symbol
from streaming.judging.archive_count import ArchiveCount
from streaming.judging.change_count import Before
from streaming.judging.columnar_cache import ColumnarCache
from streaming.judging.into import Into
from streaming.judging.judgement_cache import JudgementCache, Moved
from streaming.judging.opening_cache import OpeningCache
from streaming.judging.report import OpenConnections, Report
from streaming.judging.server_responses import ServerResponses
from streaming.judging.symbols import Symbols
from streaming.judging.tally import UNKNOWN, Tally
from streaming.judging.usage import Speakers
from streaming.state.bucket import Bucket


class BucketStep:
    """Steps buckets. It keeps cached judgements from one bucket to the next, and nothing else."""

    def __init__(
        self, judge: Judge, api_names: dict[int, str], resumed_at: int = 0, *, counts_usage: bool = False
    ) -> None:
        """`resumed_at` is when the query resumed after a loss of frames, in milliseconds, else 0."""
        self._judge = judge
        self._resumed_at = resumed_at
        self._api_names = api_names
        self._cache = JudgementCache(judge)
        self.columnar = ColumnarCache(judge)
        self.openings = OpeningCache(judge)
        self._counts_usage = counts_usage
        self._speakers = Speakers()

    def process(self, number: int, bucket: Bucket, windows: Sequence[Window]) -> Report:
        """Judge windows of connections, in the order of each connection's first sequence."""
        into = self._begin(bucket)
        self._judge_windows(windows, Symbols(Symbol), into)
        return self._finish(number, into)

    def process_columns(self, number: int, bucket: Bucket, said: Sequence[WindowColumns]) -> Report:
        """Do the same for windows as columns. Those of connections that repeat themselves stay columns."""
        into, symbols = self._begin(bucket), Symbols(Symbol)
        if self._judge.sees_all:
            left = [window for columns in said for window in columns.windows()]
        else:
            left = self.columnar.judge(said, symbols, into, self._speakers)
        for moved in self._judge_windows(left, symbols, into):
            self.columnar.learn(moved, bucket.connections.layout)
        return self._finish(number, into)

    def _begin(self, bucket: Bucket) -> Into:
        tally = Tally(self._api_names)
        counted = ArchiveCount() if self._counts_usage else None
        if bucket.resumed_at < self._resumed_at:
            self._resume(bucket, tally)
        return Into(bucket, ServerResponses(bucket.answered), tally, counted)

    def _judge_windows(self, windows: Sequence[Window], symbols: Symbols[Symbol], into: Into) -> list[Moved]:
        """Judge windows. Returns what cached transitions have moved."""
        moved, left, missed, behind = list[Moved](), list[Window](), set[int](), None
        for window in self.openings.judge(*into, sorted(windows, key=_order)):
            is_behind = window.connection.id == behind
            if is_behind or not self._judge_cached(window, symbols, into, moved):
                left.append(window)
                behind = window.connection.id
                if not is_behind:
                    missed.add(id(window))
        for window in self.openings.go_on(*into, left):
            if id(window) in missed or not self._judge_cached(window, symbols, into, moved):
                captured_at = self._judge_window(window, into)
                into.bucket.clock = max(into.bucket.clock, captured_at)
        return moved

    def _finish(self, number: int, into: Into) -> Report:
        report = into.tally.report(number)
        report.claims = united([*report.claims, *into.responses.claims()])
        if into.counted is not None:
            into.counted.complete(report)
        return self._summarise(into.bucket, report)

    def _judge_cached(
        self, window: Window, symbols: Symbols[Symbol], into: Into, judged: list[Moved]
    ) -> bool:
        """Judge a window by a cached transition, and add what has moved. Returns whether there is one."""
        bucket, responses, tally, counted = into
        moved = self._cache.judge(bucket.connections, window, symbols.of(window), responses, tally)
        if moved is None:
            return False
        judged.append(moved)
        if counted is not None:
            counted.add_stored(window, moved.row, bucket.connections, self._speakers, self._judge)
        bucket.clock = max(bucket.clock, moved.captured_at)
        return True

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what is due: report open connections, publish grown findings, forget silent connections.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            for state in bucket.connections.with_news():
                report.findings.extend(self._judge.republish(state))
                report.claims.extend(self._judge.latest_claims(state))
        # A frame from a host whose clock is wrong must not make all others look silent.
        bucket.clock = min(bucket.clock, now * MILLISECOND)
        bucket.connections.drop_silent(bucket.clock - KEPT_FOR)
        return self._summarise(bucket, report)

    def _resume(self, bucket: Bucket, tally: Tally) -> None:
        """Interrupt all connections: frames were lost that no record counts."""
        bucket.resumed_at = self._resumed_at
        for state in bucket.connections.values():
            tally.add(self._judge.interrupt(state), self._judge.listener(state.conversation.server))

    def _judge_window(self, window: Window, into: Into) -> int:
        """Judge a window that is not cached. Returns the latest capture time, 0 if nothing is new."""
        bucket, responses, tally, counted = into
        connections, key = bucket.connections, window.connection
        tally.count_frames(window)
        latest = connections.latest_sequence(key.id)
        if all(occurrence.last_sequence <= latest for occurrence in window.occurrences):
            return 0
        state, listener, before = connections.get(key.id), self._judge.listener(key.server), Before()
        if state is None:
            state = connections[key.id] = open_connection(key)
        elif counted is not None:
            before = Before.of(state, listener)
        software = state.conversation.software
        for outcome in self._judge.judge_each(state, window):
            responses.add(key, outcome.answered)
            tally.add(outcome, listener)
        tally.count_requests(window, software, latest)
        tally.show_advertised(window, listener)
        if counted is not None:
            counted.add_judged(window, before, state, listener, latest)
        if state.conversation.closed:
            del connections[key.id]
        return state.conversation.progress.captured_at

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts: dict[tuple[str, str, str], int] = {}
        for (software, server), count in bucket.connections.by_software().items():
            named = (software.name, software.version) if software else (UNKNOWN, UNKNOWN)
            key = (*named, self._judge.listener(server))
            counts[key] = counts.get(key, 0) + count
        report.open_connections = [OpenConnections(*key, count) for key, count in sorted(counts.items())]
        return report


def _order(window: Window) -> tuple[bytes, int]:
    return window.connection.id, window.first_sequence
