"""Findings grouped by client software and rule: a report shows the first few of a group.

A broken client may open ten thousand connections, and its report must still be readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from expectations.judging.finding import Finding
from expectations.report.client import Software, software_order

SHOWN = 3


class FindingGroup(NamedTuple):
    """`shown` are the first findings, `others` counts the connections not shown, `times` their offences."""

    software: Software
    rule: str
    shown: Sequence[Finding]
    others: int
    times: int

    @property
    def remainder(self) -> str:
        """Return a line that says what is not shown, "" if nothing is left out."""
        if not self.others:
            return ""
        connections = "connection" if self.others == 1 else "connections"
        return f"and {self.times:,} times on {self.others:,} more {connections}"


def groups_of(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings by client software, the unknown last, and within it by rule in order of appearance."""
    gathered: dict[tuple[Software, str], list[Finding]] = {}
    for finding in findings:
        software = finding.client_software_name, finding.client_software_version
        gathered.setdefault((software, finding.rule), []).append(finding)
    return [
        FindingGroup(
            software, rule, found[:SHOWN], len(found[SHOWN:]), sum(each.occurrences for each in found[SHOWN:])
        )
        for (software, rule), found in sorted(gathered.items(), key=lambda item: software_order(item[0][0]))
    ]
