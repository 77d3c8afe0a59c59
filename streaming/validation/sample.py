"""The sample of a batch: a bounded part of what its reports hold for the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final, TypeVar

from expectations.judging.finding import Finding
from streaming.judging.changes import Changes
from streaming.judging.report import Report

MOST: Final = 1_000
"""Findings, uses and changes of each kind of a batch that are sampled."""
ALL_LISTENERS: Final = ""
_Sampled = TypeVar("_Sampled")


def sample_of(reports: Sequence[Report], findings: Sequence[Finding]) -> Report:
    """Return a report of bounded size with what the reports of a batch hold for the tables.

    Of the times of capture it has the latest.
    """
    checks: dict[str, dict[str, int]] = {}
    for report in reports:
        for rule, verdicts in report.checks.items():
            counted = checks.setdefault(rule, {})
            for verdict, count in verdicts.items():
                counted[verdict] = counted.get(verdict, 0) + count
    latest = max((tenth for report in reports for tenth in report.captured), default=0)
    return Report(
        0,
        findings=list(findings[:MOST]),
        checks_at={ALL_LISTENERS: checks},
        captured={latest: 1},
        usage=_first(report.usage for report in reports),
        changes=Changes(
            _first(report.changes.connections for report in reports),
            _first(report.changes.members for report in reports),
            _first(report.changes.brokers for report in reports),
        ),
    )


def _first(parts: Iterable[Sequence[_Sampled]]) -> list[_Sampled]:
    return list(islice(chain.from_iterable(parts), MOST))
