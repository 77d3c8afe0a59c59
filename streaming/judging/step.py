"""One step of a bucket: judges the windows of its connections, or the claims on its identities.

A bucket of connections takes its windows through the automaton, and the rest to the judge:

    for each part of the step:
    walk             the windows with known transitions move their connections
    learn, and walk  again those that lacked one, as far as the budget goes
    judge            the windows that are left
    count            the frames of all windows

A bucket of identities takes the claims of connections that share an identity to the judge of identities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from decoders.retention import KEPT_FOR, MILLISECOND, REPUBLISH_AFTER
from decoders.schema.registry import Api
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Window
from expectations.identity.claim import Claim
from expectations.identity.packed_claims import PackedClaims
from expectations.judging.automaton import Automaton
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from streaming.judging.changes import Before
from streaming.judging.part import Part, in_order
from streaming.judging.report import OpenConnections, Report
from streaming.judging.tally import Tally
from streaming.judging.walked_part import WalkedPart, ticks_of
from streaming.state.bucket import Bucket
from streaming.state.connections import NOWHERE, SEQUENCE


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
        self._listener = judge.terms.listener
        self._apis = apis
        self._resumed_at = resumed_at
        self._counts_usage = counts_usage
        self.automaton = automaton

    def process(self, number: int, bucket: Bucket, parts: Sequence[WindowColumns]) -> Report:
        """Judge windows, part by part, in any order. In a part each window is of another connection."""
        tally = Tally(self._apis, self._listener, bucket.answered, archives=self._counts_usage)
        if bucket.resumed_at < self._resumed_at:
            self._resume(bucket, tally)
        clears = 0 if self.automaton is None else self.automaton.begin_step()
        for columns in in_order(parts):
            self._process_part(Part(columns), bucket, tally)
        report = tally.report(number)
        report.claims, report.clears = tally.packed_claims(), clears
        return self._summarise(bucket, report)

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what is due: report open connections, publish grown findings, forget silent connections.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        # A frame from a host whose clock is wrong must not make all others look silent.
        bucket.clock = min(bucket.clock, now * MILLISECOND)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            self._republish(bucket, report)
            # Only now is nothing lost with a connection: a query that catches up reads days within minutes.
            bucket.connections.drop_silent(bucket.clock - KEPT_FOR)
        return self._summarise(bucket, report)

    def _republish(self, bucket: Bucket, report: Report) -> None:
        """Publish grown findings, and claim what connections showed since their latest claim."""
        connections, left = bucket.connections, bucket.connections.stored_places()
        if self.automaton is not None:
            report.clears = self.automaton.begin_step()
            places = connections.without_findings()
            part, tally = Part(ticks_of(connections, places)), Tally(self._apis)
            walked = WalkedPart(self.automaton, self._judge, part, connections, tally)
            report.claims = tally.packed_claims()
            left = np.setdiff1d(left, places[walked.hits]).tolist()
        states = [connections.take(place) for place in left]
        claims: list[Claim] = []
        for state in states:
            report.findings.extend(self._judge.republish(state))
            claims += self._judge.latest_claims(state)
        report.claims = PackedClaims.joined([report.claims, PackedClaims.of(claims)])
        connections.put(states)

    def _process_part(self, part: Part, bucket: Bucket, tally: Tally) -> None:
        left = np.arange(len(part.columns))
        if self.automaton is not None:
            walked = WalkedPart(self.automaton, self._judge, part, bucket.connections, tally)
            bucket.clock = max(bucket.clock, walked.clock)
            left = walked.left
        tally.walked += len(part.columns) - len(left)
        tally.judged += len(left)
        if len(left):
            self._judge_windows(left.tolist(), part, bucket, tally)
        tally.count(part)

    def _judge_windows(self, left: list[int], part: Part, bucket: Bucket, tally: Tally) -> None:
        """Judge the windows that are left, by their numbers in the part."""
        connections, states = bucket.connections, list[ConnectionState]()
        chosen = part.columns.chosen(np.array(left))
        for number, place, window in zip(
            left, connections.places(chosen.ids).tolist(), chosen.windows(), strict=True
        ):
            is_known = place != NOWHERE
            latest = part.latest[number] = connections.rows[place, SEQUENCE] if is_known else 0
            if all(occurrence.last_sequence <= latest for occurrence in window.occurrences):
                continue
            state = connections.take(place) if is_known else open_connection(window.connection)
            judge_window(self._judge, state, window, number, part, tally)
            bucket.clock = max(bucket.clock, state.conversation.progress.captured_at)
            if not state.conversation.closed:
                states.append(state)
        connections.put(states)

    def _resume(self, bucket: Bucket, tally: Tally) -> None:
        """Interrupt all connections: frames were lost that no record counts."""
        bucket.resumed_at = self._resumed_at
        connections = bucket.connections
        states = [connections.take(place) for place in connections.stored_places()]
        for state in states:
            tally.add(self._judge.interrupt(state), state.conversation.server)
        connections.put(states)

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts = Counter[tuple[str | None, str | None, str]]()
        for (software, server), count in bucket.connections.by_software().items():
            named = (software.name, software.version) if software else (None, None)
            counts[*named, self._listener(server)] += count
        by_text = sorted(counts.items(), key=lambda each: [text or "" for text in each[0]])
        report.open_connections = [OpenConnections(*key, count) for key, count in by_text]
        return report


def judge_window(  # noqa: PLR0917 - whose window it is, and what it counts in
    judge: Judge, state: ConnectionState, window: Window, number: int, part: Part, tally: Tally
) -> None:
    """Judge a window by the rules, and count what comes of it. `number` is its number in the part."""
    conversation, before = state.conversation, Before()
    latest = part.latest[number] = conversation.progress.sequence
    if tally.changes is not None and latest:
        before = tally.changes.before(state)
    tally.add(judge.judge(state, window), window.connection.server)
    if tally.changes is not None:
        tally.changes.add(window, before, state, latest)
    part.software[number], part.clients[number] = conversation.software, conversation.client_id


def identity_report(number: int, outcome: Outcome) -> Report:
    """Report what came of the claims on a bucket of identities.

    Reports of identities are numbered -1, -2 and so on, those of connections from 0.
    """
    tally = Tally({})
    for listener, checks in outcome.identity_checks.items():
        tally.add(Outcome(checks=checks), listener)
    tally.add(msgspec.structs.replace(outcome, checks=Counter()), "")
    return tally.report(-1 - number)
