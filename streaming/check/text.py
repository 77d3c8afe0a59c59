"""The summary of a check as text, the most important last: files, findings, coverage, the verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from expectations.judging.finding import Finding, printable
from expectations.report.tables import counted, coverage_table, findings_list, times_seen
from expectations.report.verdict import verdict_line
from streaming.check.summary import Summary, frame_counts


def show_summary(summary: Summary, console: Console, *, every_rule: bool) -> None:
    """Print all but the verdict. Without `every_rule`, rules that had nothing to judge are a number."""
    for each in summary.files:
        found = counted(each.findings, "finding")
        console.print(f"[bold]{escape(each.file)}[/]: {frame_counts(each)}, {found}", soft_wrap=True)
    _show_ledger(summary, console)
    if summary.findings:
        console.print()
        console.print(findings_list(summary.findings, console.width))
    _show_suppressions(summary, console)
    _show_coverage(summary, console, every_rule=every_rule)


def show_verdict(summary: Summary, console: Console) -> None:
    """Print the verdict, one line."""
    if summary.frames:
        line = verdict_line(summary.findings, len(summary.suppressed), summary.coverage)
    else:
        line = Text("nothing was judged: no Kafka frame was found", "bold red")
    console.print(line, soft_wrap=True)


def _show_coverage(summary: Summary, console: Console, *, every_rule: bool) -> None:
    shown = [row for row in summary.coverage if every_rule or row.exercised or row.undecided]
    if shown:
        console.print()
        console.print(coverage_table(shown, [*summary.findings, *summary.suppressed], console.width))
    if others := len(summary.coverage) - len(shown):
        text = f"{counted(others, 'rule')} had nothing to judge; --coverage lists all"
        console.print(Text(text, "dim"), soft_wrap=True)
    if summary.disabled:
        console.print(Text(f"disabled by configuration: {', '.join(summary.disabled)}", "dim"))
    console.print()


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
    for heading, counts in (("bytes", summary.ledger), ("packets", summary.packets)):
        console.print(Text(f"{heading}: {_counted(counts)}", "dim"), soft_wrap=True)
    if summary.opaque:
        text = f"connections that are not Kafka: {summary.opaque}"
        console.print(Text(text, "dim"), soft_wrap=True)
    if summary.undecodable:
        console.print(Text(f"frames not decoded: {_counted(summary.undecodable)}", "dim"), soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
