"""The output of the demo: steps, findings, counts, and tables at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from string import digits

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.report.terminal import coverage_table, finding_line, findings_list
from streaming.demo.offences import PlantedOffence
from streaming.metrics import definitions as metrics
from streaming.metrics.definitions import Metric
from streaming.metrics.exposition import MetricsPage

REPEAT_SECONDS = 10.0
"""Seconds between two lines of progress with the same notes."""
_NO_DIGITS = str.maketrans("", "", digits)


class Screen:
    """Prints to a terminal or a log."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._started = time.monotonic()
        self.progress_line = ""
        self._printed, self._printed_at = "", 0.0
        self._kinds: list[str] = []

    def say(self, text: str) -> None:
        """Print a step."""
        self._line(Text(text))

    def finding(self, finding: Finding) -> None:
        self._line(finding_line(finding))

    def progress(
        self, feeder: MetricsPage | None, query: MetricsPage | None, waits: int, notes: Sequence[str]
    ) -> None:
        """Print how many bytes are captured, frames judged and blocks waiting, and `notes` on why.

        Prints at once if a note is new, otherwise every ten seconds and only if something has changed.
        """
        judging = query is not None and query.total(metrics.FRAMES.name) > 0
        counts = [
            _counted(feeder, metrics.CAPTURE_BYTES, "bytes captured"),
            _counted(query, metrics.FRAMES, "frames judged") if judging else "",
            f"{waits:,} blocks wait to be judged" if waits else "",
            _counted(query, metrics.OPEN_CONNECTIONS, "connections open") if judging else "",
        ]
        self.progress_line = "; ".join([", ".join(filter(None, counts)), *notes])
        now = time.monotonic()
        kinds = [note.translate(_NO_DIGITS) for note in notes]
        if self.progress_line != self._printed and (
            kinds != self._kinds or now - self._printed_at >= REPEAT_SECONDS
        ):
            self._line(Text(self.progress_line, "dim"))
            self._printed, self._printed_at, self._kinds = self.progress_line, now, kinds

    def addresses(self, heading: str, addresses: Mapping[str, str]) -> None:
        """Print names and addresses, one a line, under a heading."""
        self.say(heading)
        width = max(map(len, addresses))
        for name, address in addresses.items():
            self._console.print(Text(f"    {name:<{width}}  {address}"), soft_wrap=True)

    def planted(self, planted: Sequence[tuple[PlantedOffence, bool]]) -> None:
        """Print the table of planted offences."""
        self.part("Planted", _planted_table(planted))

    def tables(self, findings: Sequence[Finding], coverage: Sequence[Coverage]) -> None:
        """Print the tables of findings and of rule coverage."""
        self.part("Findings", findings_list(findings, self._console.width))
        self.part("Rule coverage", coverage_table(coverage, findings, self._console.width))

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


def _counted(page: MetricsPage | None, metric: Metric, what: str) -> str:
    """Return a count of a page in words, "" if it does not respond."""
    return "" if page is None else f"{page.total(metric.name):,.0f} {what}"


def _planted_table(planted: Sequence[tuple[PlantedOffence, bool]]) -> Table:
    table = Table("planted", "rules", "found", box=None, pad_edge=False)
    for offence, found in planted:
        word = Text("found", "green") if found else Text("NOT FOUND", "bold red")
        table.add_row(offence.name, ", ".join(sorted(offence.rules)), word)
    return table
