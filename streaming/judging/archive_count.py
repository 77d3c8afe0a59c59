"""What one step of a bucket adds to the archive beside findings and checks: usage and changes."""

from __future__ import annotations

from expectations.conversation.window import Window
from expectations.judging.judge import ConnectionState
from streaming.judging.change_count import Before, ChangeCount
from streaming.judging.changes import Changes
from streaming.judging.report import Report
from streaming.judging.usage import Speaker, UsageCount


class ArchiveCount:
    """Adds up the usage and the changes of one step."""

    def __init__(self) -> None:
        self._usage, self._changes = UsageCount(), ChangeCount()

    def add(self, window: Window, speaker: Speaker, listener: str, judged_until: int = 0) -> None:
        """Count the frames of a window, except those up to a sequence, which were judged before."""
        self._usage.add(window, speaker, listener, judged_until)
        self._changes.add_classic(window, speaker, listener, judged_until)

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
