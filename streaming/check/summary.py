"""The summary of a check: the object that `check --json` prints, and the same as text.

As text the most important comes last: files, clients, findings, coverage, and then the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from expectations.conversation.texts import printable
from expectations.judging.finding import Finding
from expectations.report.client import Client
from expectations.report.coverage import FAMILY_NAMES, Coverage
from expectations.report.terminal import (
    client_lines,
    counted,
    coverage_table,
    findings_list,
    times_seen,
    verdict_line,
)
from streaming.check.examination import Examination, FileRead
from streaming.feeder.capture_stream import shown
from streaming.settings.decisions import Decisions, SuppressionUse


class Summary(msgspec.Struct, frozen=True):
    """All files together.

    `findings` are those that count; `suppressed` findings are separate, each with its suppression.
    `suppressions` holds how often each matched, `disabled` the rules without `coverage`. `ledger` holds bytes
    by fate, `packets` packets by kind, `contradictions` segments by what they contradict (`Contradiction`),
    `undecodable` frames by reason, `opaque` the number of connections that are not Kafka. `truncated` says
    that a file ends inside a packet, `unread` why files of a folder were left out, and what damage ended
    a file early.
    """

    findings: list[Finding]
    suppressed: list[Finding]
    suppressions: list[SuppressionUse]
    disabled: list[str]
    coverage: list[Coverage]
    clients: list[Client]
    files: list[FileRead]
    frames: int
    connections: int
    truncated: bool
    undecodable: dict[str, int]
    opaque: int
    ledger: dict[str, int]
    packets: dict[str, int]
    contradictions: dict[str, int]
    unread: list[str]


def frame_counts(file: FileRead) -> str:
    """Return the numbers of frames and connections of a file as text."""
    return f"{counted(file.frames, 'frame')} on {counted(file.connections, 'connection')}"


def summary_of(examination: Examination, decisions: Decisions) -> Summary:
    """Summarize an examination under the decisions of users."""
    findings = examination.findings
    return Summary(
        findings=[finding for finding in findings if not finding.suppressed],
        suppressed=[finding for finding in findings if finding.suppressed],
        suppressions=decisions.uses(findings),
        disabled=decisions.disabled,
        coverage=examination.coverage,
        clients=examination.clients,
        files=examination.files,
        frames=examination.frames,
        connections=examination.connections,
        truncated=examination.truncated,
        undecodable=examination.undecodable,
        opaque=examination.opaque,
        ledger=examination.ledger,
        packets=examination.packets,
        contradictions=examination.contradictions,
        unread=examination.unread,
    )


def incomplete(files: Sequence[FileRead], unread: Sequence[str]) -> Iterator[str]:
    """Yield a line for each file that was not read to its end."""
    for problem in unread:
        yield f"{problem}; all that could be read was judged"
    for each in files:
        if each.truncated:
            yield f"{shown(Path(each.file))} ends inside a packet; all complete packets were read"


def show_summary(summary: Summary, console: Console, *, every_rule: bool) -> None:
    """Print all but the verdict. Without `every_rule`, rules that had nothing to judge are a number."""
    for each in summary.files:
        found = counted(each.findings, "finding")
        console.print(
            f"[bold]{escape(printable(each.file))}[/]: {frame_counts(each)}, {found}", soft_wrap=True
        )
    _show_ledger(summary, console)
    for line in client_lines(summary.clients):
        console.print(line)
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
    if len(shown) < len(summary.coverage):
        text = f"rules that had nothing to judge: {_silent(summary.coverage, shown)}; --coverage lists them"
        console.print(Text(text, "dim"), soft_wrap=True)
    if summary.disabled:
        console.print(Text(f"disabled by configuration: {', '.join(summary.disabled)}", "dim"))
    console.print()


def _silent(coverage: Iterable[Coverage], shown: Iterable[Coverage]) -> str:
    """Return how many rules of each KIP are not shown."""
    rules, others = (Counter(row.family for row in rows) for rows in (coverage, shown))
    silent = rules - others
    return ", ".join(
        f"{'all' if silent[family] == count else f'{silent[family]} of'} {count} of {FAMILY_NAMES[family]}"
        for family, count in rules.items()
        if family in silent
    )


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
    if summary.contradictions:
        text = f"segments that contradict others, forged or damaged: {_counted(summary.contradictions)}"
        console.print(Text(text, "yellow"), soft_wrap=True)
    if summary.opaque:
        text = f"connections that are not Kafka: {summary.opaque}"
        console.print(Text(text, "dim"), soft_wrap=True)
    if summary.undecodable:
        console.print(Text(f"frames not decoded: {_counted(summary.undecodable)}", "dim"), soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
