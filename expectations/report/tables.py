"""Findings and coverage on a terminal. Every colour comes with a word of the same meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expectations.judging.finding import Finding, printable
from expectations.report.client import software_text
from expectations.report.coverage import Coverage, state_in_words
from expectations.report.finding_group import FindingGroup, groups_of
from expectations.rules.base.rule import Level
from expectations.rules.catalogue import RULES

LEVEL_STYLES = {"violation": "bold red", "improvement": "yellow", "information": "cyan"}
_SEVERITY = [str(level) for level in Level]
_LEVELS = {rule.id: str(rule.level) for rule in RULES}
STATE_STYLES = {"violated": "bold red", "conforms": "green", "undecided": "yellow", "not exercised": "dim"}
_NANOSECONDS = 1_000_000_000
_INDENT, _NARROW_INDENT = 14, 4
_NARROW = 86
"""Columns below which a terminal has no room for the counts of all verdicts beside the longest rule."""


def finding_line(finding: Finding) -> Text:
    """Return one line: level, rule, connection and message."""
    line = _level(finding).append(f"{finding.rule:<31} ", "bold")
    line.append(f"{finding.client} → {finding.listener}  ", "dim")
    line.append(finding.message)
    return line


def counted(count: int, what: str) -> str:
    """Return a number and what it counts, in the plural unless it is one."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _level(finding: Finding) -> Text:
    if finding.suppressed:
        return Text("suppressed  ", "dim")
    return Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])


def findings_list(findings: Iterable[Finding], width: int = _NARROW) -> Group:
    """Return the findings, grouped under the client software of their connections, for a terminal's width."""
    indent = _INDENT if width >= _NARROW else _NARROW_INDENT
    parts: list[Text | Padding] = []
    for software, groups in groupby(groups_of(findings), key=lambda group: group.software):
        parts.append(Text(printable(software_text(software)), "bold underline"))
        parts.extend(part for group in groups for part in _group(group, indent))
    return Group(*parts)


def _group(group: FindingGroup, indent: int) -> Iterator[Text | Padding]:
    for finding in group.shown:
        yield from _entry(finding, indent)
    if group.remainder:
        yield Padding(Text(group.remainder, "dim"), (0, 0, 0, indent))


def coverage_table(
    coverage: Sequence[Coverage], findings: Iterable[Finding] = (), width: int = _NARROW
) -> Table:
    """Return a table with a row per rule: how often it gave each verdict, and its state.

    The state of a rule with findings is their gravest level. A narrow terminal gets one number, that of the
    checks that made the state.
    """
    levels = _levels_of(findings)
    headings = ("conforms", "violates", "undecided") if width >= _NARROW else ("",)
    table = Table(box=None, pad_edge=False)
    table.add_column("rule", no_wrap=True, min_width=max((len(row.rule) for row in coverage), default=0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row in coverage:
        counts = [row.conforms, row.violates, row.undecided]
        if width < _NARROW:
            counts = [row.violates or row.conforms or row.undecided]
        table.add_row(row.rule, *map(str, counts), _state(row, levels), style=_row_style(row))
    return table


def _levels_of(findings: Iterable[Finding]) -> Mapping[str, str]:
    """Return the gravest level of each rule's findings, which may differ from the rule's own."""
    gravest: dict[str, str] = {}
    for finding in findings:
        gravest[finding.rule] = min(
            gravest.get(finding.rule, finding.level), finding.level, key=_SEVERITY.index
        )
    return gravest


def _state(row: Coverage, levels: Mapping[str, str]) -> Text:
    """Return the state of a rule. What is only worth knowing is not called violated, nor red."""
    if not row.violates:
        word = state_in_words(row)
        return Text(word, STATE_STYLES[word])
    level = levels.get(row.rule, _LEVELS[row.rule])
    return Text("violated" if level == Level.VIOLATION else level, LEVEL_STYLES[level])


def _row_style(row: Coverage) -> str:
    """Grey out a rule that was not exercised: it is neither good nor bad."""
    return "" if row.exercised or row.undecided else "dim"


def _entry(finding: Finding, indent: int) -> Iterator[Text | Padding]:
    head = Text("  ").append(_level(finding)).append(f"{finding.rule:<31}", "bold")
    yield head.append(f" {times_seen(finding)}", "dim")
    details = Text(f"{finding.client} → {finding.listener}{_place(finding)}\n", "dim")
    details.append(f"{finding.message}\n", "default")
    values = (("expected", finding.expected), ("observed", finding.observed))
    if given := "; ".join(f"{name} {printable(value)}" for name, value in values if value):
        details.append(f"{given}\n")
    details.append(finding.demanded_by)
    if finding.suppressed:
        details.append(f"\nsuppressed {printable(str(finding.suppressed))}")
    yield Padding(details, (0, 0, 0, indent), expand=False)


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
