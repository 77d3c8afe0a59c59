"""Findings of one rule and one client software, of which a report shows the first few and counts the rest.

A broken client may open ten thousand connections; its report is still to be read by a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from expectations.judging.finding import Finding
from expectations.report.fleet import Software, order

SHOWN = 3


class Crowd(NamedTuple):
    """`shown` are the first findings, `others` counts the connections not shown, `times` their offences."""

    software: Software
    rule: str
    shown: Sequence[Finding]
    others: int
    times: int

    @property
    def remainder(self) -> str:
        """Say in a line what is not shown; "" where all is."""
        if not self.others:
            return ""
        connections = "connection" if self.others == 1 else "connections"
        return f"and {self.times:,} times on {self.others:,} more {connections}"


def crowds_of(findings: Iterable[Finding]) -> list[Crowd]:
    """Gather findings by client software, the unknown last, and within it by rule as they came."""
    gathered: dict[tuple[Software, str], list[Finding]] = {}
    for finding in findings:
        software = finding.client_software_name, finding.client_software_version
        gathered.setdefault((software, finding.rule), []).append(finding)
    return [
        Crowd(
            software, rule, found[:SHOWN], len(found[SHOWN:]), sum(each.occurrences for each in found[SHOWN:])
        )
        for (software, rule), found in sorted(gathered.items(), key=lambda item: order(item[0][0]))
    ]
