"""The days of a batch's rows: which of them have folders of their own.

Whoever publishes frames decides on their times, and a file is open for each day: a crafted block could have
thousands of days. Rows of days beyond MOST are in the folder of FURTHER, with their own times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from expectations.suites.further_days import FURTHER
from streaming.archive.table import EPOCH
from streaming.judging.report import Report

MOST: Final = 100
"""Days of a batch that have folders. With seven tables these are fewer files than a process may open."""
_TENTHS_OF_A_DAY: Final = 24 * 60 * 60 * 10


class BatchDays:
    """Chooses the folders of a batch's rows. `further` counts rows of days without one."""

    def __init__(self, reports: Iterable[Report]) -> None:
        """The days of which most frames were captured come first, lest a few frames take all folders."""
        frames: Counter[int] = Counter()
        for report in reports:
            for tenth, count in report.captured.items():
                frames[tenth // _TENTHS_OF_A_DAY] += count
        self._days = {(EPOCH + timedelta(days=day)).date().isoformat() for day, _ in frames.most_common(MOST)}
        self.further = 0

    def folder(self, day: str) -> str:
        """Return the day whose folder takes a row of `day`, such as `2026-06-21`."""
        if day not in self._days:
            if len(self._days) >= MOST:
                self.further += 1
                return FURTHER
            self._days.add(day)
        return day
