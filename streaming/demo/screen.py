"""The output of the demo: steps, findings, counts, and tables at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.report.tables import coverage_table, finding_line, findings_list
from streaming.demo.offences import PlantedOffence
from streaming.demo.page import MetricsPage
from streaming.metrics import definitions as metrics


class Screen:
    """Prints to a terminal or a log."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._started = time.monotonic()
        self._counts = ""

    def say(self, text: str) -> None:
        """Print a step."""
        self._line(Text(text))

    def finding(self, finding: Finding) -> None:
        """Print a finding."""
        self._line(finding_line(finding))

    def counts(self, feeder: MetricsPage | None, application: MetricsPage | None) -> None:
        """Print the counts of feeder and query, if they have changed."""
        if feeder is None or application is None:
            return
        counts = (
            f"{feeder.total(metrics.CAPTURE_BYTES.name):,.0f} bytes captured, "
            f"{application.total(metrics.FRAMES.name):,.0f} frames judged, "
            f"{application.total(metrics.OPEN_CONNECTIONS.name):.0f} connections open"
        )
        if counts != self._counts:
            batches = application.total(f"{metrics.BATCH_DURATION.name}_count")
            self._line(Text(f"{counts}, {batches:.0f} batches", "dim"))
        self._counts = counts

    def tables(
        self,
        findings: Iterable[Finding],
        coverage: Sequence[Coverage],
        planted: Sequence[tuple[PlantedOffence, bool]],
    ) -> None:
        """Print the tables of findings, of planted offences, and of rule coverage."""
        self.part("Findings", findings_list(findings))
        self.part("Planted", _planted_table(planted))
        self.part("Rule coverage", coverage_table(coverage))

    def verdict(self, succeeded: bool, found: int, planted: int) -> None:
        """Print the result in one line."""
        if succeeded:
            text = f"all {planted} planted offences were found, and nothing else violates a rule"
        else:
            text = f"{found} of {planted} planted offences were found; see above for what else went wrong"
        self._line(Text(text, "bold green" if succeeded else "bold red"))

    def part(self, heading: str, content: RenderableType) -> None:
        """Print one table under its heading."""
        self._console.print(f"\n[bold]{heading}[/]")
        self._console.print(content)

    def _line(self, text: Text) -> None:
        self._console.print(
            Text(f"{time.monotonic() - self._started:6.1f} s  ", "dim") + text, soft_wrap=True
        )


def _planted_table(planted: Sequence[tuple[PlantedOffence, bool]]) -> Table:
    table = Table("planted", "rules", "found", box=None, pad_edge=False)
    for offence, found in planted:
        word = Text("found", "green") if found else Text("NOT FOUND", "bold red")
        table.add_row(offence.name, ", ".join(sorted(offence.rules)), word)
    return table
