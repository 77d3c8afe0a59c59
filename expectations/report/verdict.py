"""The verdict of a check in one line: findings by level, who is at fault, rules exercised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.report.tables import LEVEL_STYLES, counted
from expectations.rules.base.rule import Level, Role


def verdict_line(findings: Sequence[Finding], suppressed: int, coverage: Sequence[Coverage]) -> Text:
    """Return the verdict, such as `2 violations by 1 client; 31 of 72 rules exercised`.

    `findings` are those that count. A client is a client software by name and version, a broker an address.
    """
    exercised = sum(row.exercised for row in coverage)
    parts = [
        _found(findings),
        f"{counted(suppressed, 'finding')} suppressed" if suppressed else "",
        f"{exercised} of {counted(len(coverage), 'rule')} exercised",
    ]
    return Text("; ".join(filter(None, parts)), _style(findings))


def _found(findings: Sequence[Finding]) -> str:
    if not findings:
        return "no findings"
    levels = Counter(finding.level for finding in findings)
    found = ", ".join(_level(level, levels[level]) for level in Level if levels[level])
    return f"{found} by {_at_fault(findings)}"


def _level(level: Level, count: int) -> str:
    # The word has no plural.
    return f"{count:,} information" if level == Level.INFORMATION else counted(count, level)


def _at_fault(findings: Sequence[Finding]) -> str:
    brokers = {finding.listener for finding in findings if finding.role == Role.BROKER}
    clients = {
        (finding.client_software_name, finding.client_software_version)
        for finding in findings
        if finding.role != Role.BROKER
    }
    sides = ((len(clients), "client"), (len(brokers), "broker"))
    return " and ".join(counted(count, side) for count, side in sides if count)


def _style(findings: Sequence[Finding]) -> str:
    gravest = next((level for level in Level if any(each.level == level for each in findings)), None)
    return LEVEL_STYLES[gravest] if gravest else "bold green"
