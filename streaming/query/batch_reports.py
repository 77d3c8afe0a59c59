"""The reports of a batch, read so that the findings of all of them are never in memory together.

Strangers decide how many findings a batch has: a million of them, decoded, would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from expectations.judging.finding import Finding
from streaming.judging.report import Report, pack_report, unpack_report


class BatchReports:
    """The reports of a batch. `findings` must be read to the end before `reports`, which keep none."""

    def __init__(self, reports: Iterable[Report], *, keeps_findings: bool = False, sampled: int = 0) -> None:
        """`reports` are made one by one as they are read. With `keeps_findings` findings are kept.

        The first `sampled` findings are kept in `sample`.
        """
        self._unread = reports
        self._keeps_findings = keeps_findings
        self._kept: list[bytes] = []
        self.reports: list[Report] = []
        self.found = 0
        self.sample: list[Finding] = []
        self._sampled = sampled

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of each report, and count them in `found`."""
        for report in self._unread:
            self.found += len(report.findings)
            self.sample += report.findings[: self._sampled - len(self.sample)]
            yield from report.findings
            if self._keeps_findings and report.findings:
                self._kept.append(pack_report(Report(report.bucket, report.findings)))
            report.findings = []
            self.reports.append(report)

    def kept_findings(self) -> Iterator[Finding]:
        """Yield all findings again. They are kept compressed, and unpacked for one report at a time."""
        for packed in self._kept:
            yield from unpack_report(packed).findings

    @property
    def frames(self) -> int:
        """The number of frames that were judged."""
        return sum(sum(kinds.values()) for report in self.reports for kinds in report.frames.values())

    @property
    def undecodable(self) -> int:
        """The number of frames among them that could not be decoded."""
        return sum(sum(report.undecodable.values()) for report in self.reports)
