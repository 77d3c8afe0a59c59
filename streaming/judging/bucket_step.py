"""One step of a bucket: takes its windows through the automaton, and the rest to the judge.

for each part of the step:
walk             the windows with known transitions move their connections
learn, and walk  again those that lacked one, as far as the budget goes
judge            the windows that are left
count            the frames of all windows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from decoders.retention import KEPT_FOR, MILLISECOND, REPUBLISH_AFTER
from decoders.schema.registry import Api
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Window
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge, open_connection
from streaming.judging.changes import Before
from streaming.judging.part import Part, in_order
from streaming.judging.report import OpenConnections, Report
from streaming.judging.tally import ServerResponses, Tally
from streaming.judging.usage import ArchiveCount
from streaming.judging.walked_part import WalkedPart, ticks_of
from streaming.state.bucket import Bucket

_Integers = NDArray[np.int64]


class _Step:
    """The bucket of one step, and the counts that the step adds to."""

    def __init__(self, judge: Judge, apis: Mapping[int, Api], bucket: Bucket, *, counts_usage: bool) -> None:
        self.bucket = bucket
        self.tally = Tally(apis, judge.listener)
        self.responses = ServerResponses(bucket.answered)
        self.archive = ArchiveCount(judge.listener) if counts_usage else None
        self.walked = self.judged = 0


class BucketStep:
    """Steps buckets. It keeps the automaton from one bucket to the next, and nothing else.

    Without an automaton the judge judges all.
    """

    def __init__(
        self,
        judge: Judge,
        apis: Mapping[int, Api],
        resumed_at: int = 0,
        *,
        counts_usage: bool = False,
        automaton: Automaton | None = None,
    ) -> None:
        """`resumed_at` is when the query resumed after a loss of frames, in milliseconds, else 0."""
        self._judge = judge
        self._apis = apis
        self._resumed_at = resumed_at
        self._counts_usage = counts_usage
        self.automaton = automaton

    def process(self, number: int, bucket: Bucket, parts: Sequence[WindowColumns]) -> Report:
        """Judge windows, part by part, in any order. In a part each window is of another connection."""
        step = _Step(self._judge, self._apis, bucket, counts_usage=self._counts_usage)
        if bucket.resumed_at < self._resumed_at:
            self._resume(bucket, step.tally)
        clears = 0 if self.automaton is None else self.automaton.begin_step()
        for columns in in_order(parts):
            self._process_part(Part(columns), step)
        report = step.tally.report(number)
        report.walked, report.judged, report.clears = step.walked, step.judged, clears
        report.claims += step.responses.claims()
        if step.archive is not None:
            report.usage, report.changes = step.archive.report()
        return self._summarise(bucket, report)

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what is due: report open connections, publish grown findings, forget silent connections.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            self._republish(bucket, report)
        # A frame from a host whose clock is wrong must not make all others look silent.
        bucket.clock = min(bucket.clock, now * MILLISECOND)
        bucket.connections.drop_silent(bucket.clock - KEPT_FOR)
        return self._summarise(bucket, report)

    def _republish(self, bucket: Bucket, report: Report) -> None:
        """Publish grown findings, and claim what connections showed since their latest claim."""
        connections, left = bucket.connections, list(bucket.connections)
        if self.automaton is not None:
            report.clears = self.automaton.begin_step()
            part, tally = Part(ticks_of(connections)), Tally(self._apis, self._judge.listener)
            walked = WalkedPart(self.automaton, self._judge, part, connections, archive=None)
            walked.yield_to(tally)
            report.claims = tally.report(report.bucket).claims
            done = {part.columns.id(number) for number in walked.hits.tolist()}
            left = [connection for connection in left if connection not in done]
        for connection in left:
            state = connections[connection]
            report.findings.extend(self._judge.republish(state))
            report.claims.extend(self._judge.latest_claims(state))

    def _process_part(self, part: Part, step: _Step) -> None:
        left = np.arange(len(part.columns))
        if self.automaton is not None:
            walked = WalkedPart(self.automaton, self._judge, part, step.bucket.connections, step.archive)
            walked.yield_to(step.tally)
            step.bucket.clock = max(step.bucket.clock, walked.clock)
            left = walked.left
            step.walked += len(walked.hits)
        step.judged += len(left)
        if len(left):
            for number, window in zip(left.tolist(), part.columns.chosen(left).windows(), strict=True):
                self._judge_window(number, window, part, step)
        step.tally.count(part, step.responses)
        if step.archive is not None:
            step.archive.add(part)

    def _judge_window(self, number: int, window: Window, part: Part, step: _Step) -> None:
        """Judge a window by the rules; `number` is its number in the part."""
        connections, bucket, key = step.bucket.connections, step.bucket, window.connection
        latest = part.latest[number] = connections.latest_sequence(key.id)
        if all(occurrence.last_sequence <= latest for occurrence in window.occurrences):
            return
        state, before = connections.get(key.id), Before()
        if state is None:
            state = connections[key.id] = open_connection(key)
        elif step.archive is not None:
            before = step.archive.before(state)
        listener = self._judge.listener(key.server)
        for outcome in self._judge.judge_each(state, window):
            step.tally.add(outcome, listener)
        if step.archive is not None:
            step.archive.add_change(window, before, state, latest)
        conversation = state.conversation
        part.software[number], part.clients[number] = conversation.software, conversation.client_id
        bucket.clock = max(bucket.clock, conversation.progress.captured_at)
        if conversation.closed:
            del connections[key.id]

    def _resume(self, bucket: Bucket, tally: Tally) -> None:
        """Interrupt all connections: frames were lost that no record counts."""
        bucket.resumed_at = self._resumed_at
        for state in bucket.connections.values():
            tally.add(self._judge.interrupt(state), self._judge.listener(state.conversation.server))

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts: dict[tuple[str | None, str | None, str], int] = {}
        for (software, server), count in bucket.connections.by_software().items():
            named = (software.name, software.version) if software else (None, None)
            key = (*named, self._judge.listener(server))
            counts[key] = counts.get(key, 0) + count
        by_text = sorted(counts.items(), key=lambda each: [text or "" for text in each[0]])
        report.open_connections = [OpenConnections(*key, count) for key, count in by_text]
        return report
