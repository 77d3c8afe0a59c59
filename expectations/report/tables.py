"""Findings and coverage as a terminal shows them. Every colour stands beside a word that says the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expectations.judging.finding import Finding, printable
from expectations.report.coverage import Coverage, state_in_words
from expectations.report.crowd import Crowd, crowds_of
from expectations.report.fleet import software_text

LEVEL_STYLES = {"violation": "bold red", "improvement": "yellow", "information": "cyan"}
STATE_STYLES = {"violated": "bold red", "conforms": "green", "undecided": "yellow", "not exercised": "dim"}
_NANOSECONDS = 1_000_000_000
_INDENT = 14


def finding_line(finding: Finding) -> Text:
    """One line: level, rule, connection, and why."""
    line = _level(finding).append(f"{finding.rule:<31} ", "bold")
    line.append(f"{finding.client} → {finding.listener}  ", "dim")
    line.append(finding.message)
    return line


def _level(finding: Finding) -> Text:
    if finding.suppressed:
        return Text("suppressed  ", "dim")
    return Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])


def findings_list(findings: Iterable[Finding]) -> Group:
    """The findings, under the client software on whose connections they were made."""
    parts: list[Text | Padding] = []
    for software, crowds in groupby(crowds_of(findings), key=lambda crowd: crowd.software):
        parts.append(Text(printable(software_text(software)), "bold underline"))
        parts.extend(part for crowd in crowds for part in _crowd(crowd))
    return Group(*parts)


def _crowd(crowd: Crowd) -> Iterator[Text | Padding]:
    for finding in crowd.shown:
        yield from _entry(finding)
    if crowd.remainder:
        yield Padding(Text(crowd.remainder, "dim"), (0, 0, 0, _INDENT))


def coverage_table(coverage: Sequence[Coverage]) -> Table:
    """One row a rule: what could be judged and how it came out."""
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
    """A rule that nothing exercised is grey as a whole: neither good nor bad was seen of it."""
    return "" if row.exercised or row.undecided else "dim"


def _entry(finding: Finding) -> Iterator[Text | Padding]:
    head = Text("  ").append(_level(finding)).append(f"{finding.rule:<31} ", "bold")
    yield head.append(times_seen(finding), "dim")
    told = Text(f"{finding.client} → {finding.listener}{_place(finding)}\n", "dim")
    told.append(f"{finding.message}\n", "default")
    if finding.expected or finding.observed:
        told.append(f"expected {printable(finding.expected)}; observed {printable(finding.observed)}\n")
    told.append(finding.demanded_by)
    if finding.suppressed:
        told.append(f"\nsuppressed {printable(str(finding.suppressed))}")
    yield Padding(told, (0, 0, 0, _INDENT))


def times_seen(finding: Finding) -> str:
    """Say how often an offence was seen, and how long after the first the last was."""
    if finding.occurrences == 1:
        return "seen 1 time"
    seconds = (finding.last_captured_at - finding.first_captured_at) / _NANOSECONDS
    return f"seen {finding.occurrences} times in {seconds:.1f} s"


def _place(finding: Finding) -> str:
    evidence = finding.evidence
    packet = f" in packet {evidence.packet} of {printable(evidence.source)}" if evidence.packet else ""
    return f"  frame {finding.sequence}{packet}"
