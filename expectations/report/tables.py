"""Findings and coverage on a terminal. Every colour comes with a word of the same meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expectations.judging.finding import Finding, printable
from expectations.report.client import software_text
from expectations.report.coverage import Coverage, state_in_words
from expectations.report.finding_group import FindingGroup, groups_of

LEVEL_STYLES = {"violation": "bold red", "improvement": "yellow", "information": "cyan"}
STATE_STYLES = {"violated": "bold red", "conforms": "green", "undecided": "yellow", "not exercised": "dim"}
_NANOSECONDS = 1_000_000_000
_INDENT = 14


def finding_line(finding: Finding) -> Text:
    """Return one line: level, rule, connection and message."""
    line = _level(finding).append(f"{finding.rule:<31} ", "bold")
    line.append(f"{finding.client} → {finding.listener}  ", "dim")
    line.append(finding.message)
    return line


def _level(finding: Finding) -> Text:
    if finding.suppressed:
        return Text("suppressed  ", "dim")
    return Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])


def findings_list(findings: Iterable[Finding]) -> Group:
    """Return the findings, grouped under the client software of their connections."""
    parts: list[Text | Padding] = []
    for software, groups in groupby(groups_of(findings), key=lambda group: group.software):
        parts.append(Text(printable(software_text(software)), "bold underline"))
        parts.extend(part for group in groups for part in _group(group))
    return Group(*parts)


def _group(group: FindingGroup) -> Iterator[Text | Padding]:
    for finding in group.shown:
        yield from _entry(finding)
    if group.remainder:
        yield Padding(Text(group.remainder, "dim"), (0, 0, 0, _INDENT))


def coverage_table(coverage: Sequence[Coverage]) -> Table:
    """Return a table with a row per rule: how often it gave each verdict, and its state."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rule", no_wrap=True, min_width=max((len(row.rule) for row in coverage), default=0))
    for heading in ("conforms", "violates", "undecided"):
        table.add_column(heading, justify="right")
    table.add_column("so", no_wrap=True)
    for row in coverage:
        word = state_in_words(row)
        numbers = (str(row.conforms), str(row.violates), str(row.undecided))
        table.add_row(row.rule, *numbers, Text(word, STATE_STYLES[word]), style=_row_style(row))
    return table


def _row_style(row: Coverage) -> str:
    """Grey out a rule that was not exercised: it is neither good nor bad."""
    return "" if row.exercised or row.undecided else "dim"


def _entry(finding: Finding) -> Iterator[Text | Padding]:
    head = Text("  ").append(_level(finding)).append(f"{finding.rule:<31} ", "bold")
    yield head.append(times_seen(finding), "dim")
    details = Text(f"{finding.client} → {finding.listener}{_place(finding)}\n", "dim")
    details.append(f"{finding.message}\n", "default")
    if finding.expected or finding.observed:
        details.append(f"expected {printable(finding.expected)}; observed {printable(finding.observed)}\n")
    details.append(finding.demanded_by)
    if finding.suppressed:
        details.append(f"\nsuppressed {printable(str(finding.suppressed))}")
    yield Padding(details, (0, 0, 0, _INDENT))


def times_seen(finding: Finding) -> str:
    """Return how often an offence was seen, and in how many seconds from first to last."""
    if finding.occurrences == 1:
        return "seen 1 time"
    seconds = (finding.last_captured_at - finding.first_captured_at) / _NANOSECONDS
    return f"seen {finding.occurrences} times in {seconds:.1f} s"


def _place(finding: Finding) -> str:
    evidence = finding.evidence
    packet = f" in packet {evidence.packet} of {printable(evidence.source)}" if evidence.packet else ""
    return f"  frame {finding.sequence}{packet}"
