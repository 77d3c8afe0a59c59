"""Writes what a capture comes to into an archive, as the query does batch by batch.

The files are named after the capture, so that the same capture, read again, replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from expectations.judging.finding import Finding
from streaming.archive.archive import Archive, ArchiveNotWrittenError
from streaming.judging.report import Report
from streaming.user_error import UserError

REPORTS: Final = 32
"""Reports that are written together."""


class CaptureArchive:
    """Writes the reports of one capture, of one run, and then its findings."""

    def __init__(self, folder: str, api_names: Mapping[int, str]) -> None:
        """Create the folder. Raises UserError if that is not possible."""
        self._archive = Archive(folder, api_names)
        self._name = ""
        self._batches = self._at = 0
        self._waiting: list[Report] = []

    def begin(self, run: int) -> None:
        """Delete what an earlier reading of the capture wrote; `run` is the ID of its run."""
        self._name = f"capture-{run:016x}"
        try:
            self._archive.forget(self._name)
        except ArchiveNotWrittenError as error:
            raise UserError(str(error)) from error

    def add(self, report: Report, at: int) -> None:
        """Add a report, but for its findings, which may grow. `at` is the latest capture, in nanoseconds."""
        self._waiting.append(msgspec.structs.replace(report, findings=[]))
        self._at = at
        if len(self._waiting) >= REPORTS:
            self._write()

    def finish(self, findings: Sequence[Finding]) -> None:
        """Add the findings of the whole capture, and write what is left."""
        self._waiting.append(Report(0, findings=list(findings)))
        self._write()

    def _write(self) -> None:
        try:
            self._archive.write(self._name, self._batches, self._waiting, self._at)
        except ArchiveNotWrittenError as error:
            raise UserError(str(error)) from error
        self._waiting.clear()
        self._batches += 1
