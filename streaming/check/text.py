"""The summary of a check as text: findings by client software, suppressions, coverage, the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from expectations.judging.finding import Finding, printable
from expectations.report.tables import coverage_table, findings_list, times_seen
from streaming.check.summary import Summary, frame_counts


def show_summary(summary: Summary, console: Console) -> None:
    """Print all of it."""
    for each in summary.files:
        console.print(
            f"[bold]{escape(each.file)}[/]: {frame_counts(each)}, {each.findings} findings", soft_wrap=True
        )
    if summary.findings:
        console.print()
        console.print(findings_list(summary.findings))
    _show_suppressions(summary, console)
    console.print()
    console.print(coverage_table(summary.coverage))
    if summary.disabled:
        console.print(Text(f"disabled by configuration: {', '.join(summary.disabled)}", "dim"))
    _show_ledger(summary, console)


def _show_suppressions(summary: Summary, console: Console) -> None:
    if summary.suppressed:
        console.print(f"\n[bold]suppressed findings: {len(summary.suppressed)}[/]")
    for finding in summary.suppressed:
        console.print(_suppressed_line(finding), soft_wrap=True)
    for use in summary.suppressions:
        if use.warning:
            console.print(Text(f"warning: {printable(use.warning)}", "yellow"), soft_wrap=True)


def _suppressed_line(finding: Finding) -> Text:
    line = Text("  suppressed  ", "dim").append(f"{finding.rule:<31} ", "bold")
    line.append(f"{finding.client} → {finding.listener}, {times_seen(finding)}; ", "dim")
    return line.append(printable(str(finding.suppressed)))


def _show_ledger(summary: Summary, console: Console) -> None:
    console.print()
    for heading, counts in (("bytes", summary.ledger), ("packets", summary.packets)):
        console.print(Text(f"{heading}: {_counted(counts)}", "dim"), soft_wrap=True)
    if summary.opaque:
        text = f"connections that are not Kafka: {summary.opaque}"
        console.print(Text(text, "dim"), soft_wrap=True)
    if summary.undecodable:
        console.print(Text(f"frames not decoded: {_counted(summary.undecodable)}", "dim"), soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
