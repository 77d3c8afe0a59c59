"""Findings and coverage as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expectations.finding import Finding, printable
from expectations.report.coverage import Coverage, state_in_words

_INDENT = 12

LEVEL_STYLES = {"violation": "bold red", "improvement": "yellow", "information": "cyan"}
STATE_STYLES = {"violated": "bold red", "conforms": "green", "undecided": "yellow", "not exercised": "dim"}


def finding_line(finding: Finding) -> Text:
    """One line: level, rule, connection, and why."""
    line = Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])
    line.append(f"{finding.rule:<31} ", "bold")
    line.append(f"{finding.client} → {finding.listener}  ", "dim")
    line.append(finding.message)
    return line


def findings_list(findings: Iterable[Finding]) -> Group:
    """Three lines a finding: what, where, and why."""
    return Group(*(part for finding in findings for part in _entry(finding)))


def _entry(finding: Finding) -> tuple[Text, Padding]:
    times = "time" if finding.occurrences == 1 else "times"
    head = Text(f"{finding.level:<11} ", LEVEL_STYLES[finding.level])
    head.append(f"{finding.rule:<31} ", "bold").append(f"seen {finding.occurrences} {times}", "dim")
    software = f"{finding.client_software_name or 'unknown'} {finding.client_software_version or ''}"
    where = Text(f"{finding.client} → {finding.listener}  {printable(software.strip())}\n", "dim")
    return head, Padding(where + Text(finding.message), (0, 0, 0, _INDENT))


def coverage_table(coverage: Sequence[Coverage]) -> Table:
    """One row a rule: what could be judged and how it came out."""
    table = Table("rule", "conforms", "violates", "undecided", "so", box=None, pad_edge=False)
    for row in coverage:
        word = state_in_words(row)
        numbers = (str(row.conforms), str(row.violates), str(row.undecided))
        table.add_row(row.rule, *numbers, Text(word, STATE_STYLES[word]))
    return table
