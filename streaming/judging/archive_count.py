"""What one step of a bucket adds to the archive beside findings and checks: usage and changes."""

from __future__ import annotations

import numpy as np

from expectations.conversation.window import Window
from expectations.judging.judge import ConnectionState, Judge
from streaming.judging.change_count import Before, ChangeCount
from streaming.judging.changes import Changes
from streaming.judging.report import Report
from streaming.judging.usage import Said, Speaker, Speakers, Spoken, UsageCount
from streaming.state.connection_layout import Row
from streaming.state.connections import Connections


class ArchiveCount:
    """Adds up the usage and the changes of one step."""

    def __init__(self) -> None:
        self._usage, self._changes = UsageCount(), ChangeCount()
        self._stored: dict[tuple[int, int, int], Spoken] = {}
        """What stored connections say, by the numbers of their server, software and client ID."""

    def add(self, window: Window, speaker: Speaker, listener: str, judged_until: int = 0) -> None:
        """Count the frames of a window, except those up to a sequence, which were judged before."""
        if self._usage.spoken(speaker, listener).add(window, judged_until):
            self._changes.add_classic(window, speaker, listener, judged_until)

    def add_stored(
        self, window: Window, row: Row, connections: Connections, speakers: Speakers, judge: Judge
    ) -> None:
        """Count the frames of a window of a stored connection that is not read."""
        spoken = self._stored.get((row.server, row.software, row.client))
        if spoken is None:
            spoken = self._spoken_on(window.connection.id, row, connections, speakers, judge)
        if spoken.add(window):
            self._changes.add_classic(window, spoken.speaker, spoken.listener)

    def add_said(
        self, said: Said, place: int, connections: Connections, speakers: Speakers, judge: Judge
    ) -> None:
        """Count windows of stored connections that were added up; `place` is that of the first of them."""
        spoken = self._stored.get(said.stored)
        if spoken is None:
            row = connections.row(place)
            spoken = self._spoken_on(said.columns.id(said.first), row, connections, speakers, judge)
        if spoken.add_said(said):
            windows = np.flatnonzero(said.sums == said.number)
            for window in said.columns.chosen(windows).windows():
                self._changes.add_classic(window, spoken.speaker, spoken.listener)

    def _spoken_on(
        self, connection: bytes, row: Row, connections: Connections, speakers: Speakers, judge: Judge
    ) -> Spoken:
        """Find out what a stored connection's speaker says, and remember it."""
        speaker = speakers.of(connections, connection, row)
        spoken = self._usage.spoken(speaker, judge.listener(speaker.server))
        self._stored[row.server, row.software, row.client] = spoken
        return spoken

    def add_judged(
        self, window: Window, before: Before, state: ConnectionState, listener: str, judged_until: int = 0
    ) -> None:
        """Count a window that the judge read, and what it changed of its connection."""
        self.add(window, Speaker.of(state.conversation), listener, judged_until)
        self._changes.add(window, before, state, listener, judged_until)

    def add_changes(self, changes: Changes) -> None:
        """Add changes that are already known."""
        self._changes.add_known(changes)

    def complete(self, report: Report) -> None:
        """Put what was counted into a report."""
        report.usage, report.changes = self._usage.report(), self._changes.report()
