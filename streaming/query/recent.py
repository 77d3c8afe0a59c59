"""What the page of a running query shows beside its metrics: recent offences, and the latest findings.

Both are bounded, whatever clients invent, and can be read by another thread than the one that adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Lock
from typing import Final

import msgspec

from expectations.judging.finding import Finding
from expectations.judging.outcome import Offence
from expectations.report.live_page import Offender
from expectations.report.terminal import SHOWN
from expectations.rules.base.rule import Level
from streaming.metrics.labels import OTHER

WINDOW_MINUTES: Final = 5
MOST: Final = 500
"""Kinds of offences of a minute, by software and listener. Further ones count under `other`."""
_MINUTE: Final = 60


class Recent:
    """The offences of the last minutes, by client software and listener, and the time of the latest frame.

    Times are in seconds since the epoch: `judged_at` is when frames were judged last, 0 if never, and
    `captured_at` when the latest of these was captured. Offences have the latter time, so those of a backlog
    do not count as new. Suppressed offences are left out.
    """

    def __init__(self) -> None:
        self.judged_at = self.captured_at = 0.0
        self._lock = Lock()
        self._minutes: dict[int, dict[Offence, tuple[int, float]]] = {}
        """By minute: how often each offence was committed, and when last."""

    def add_frames(self, at: float, captured_at: float) -> None:
        """Note that frames were judged at a time, the latest of which was captured at `captured_at`."""
        captured_at = min(at, captured_at)
        self.captured_at = captured_at if at > self.judged_at else max(self.captured_at, captured_at)
        self.judged_at = at

    def add(self, offence: Offence, times: int) -> None:
        """Add offences of one client software."""
        if offence.level not in set(Level):
            return
        at = self.captured_at
        with self._lock:
            self._forget(at)
            minute = self._minutes.setdefault(int(at // _MINUTE), {})
            if offence not in minute and len(minute) >= MOST:
                others = dict.fromkeys(("software_name", "software_version", "listener", "owner"), OTHER)
                offence = msgspec.structs.replace(offence, **others)
            before, _ = minute.get(offence, (0, 0.0))
            minute[offence] = before + times, at

    def offenders(self, now: float) -> list[Offender]:
        """Return the offences of the last WINDOW_MINUTES."""
        with self._lock:
            self._forget(now)
            minutes = [dict(minute) for minute in self._minutes.values()]
        found: dict[Offence, tuple[int, float]] = {}
        listeners: dict[Offence, dict[str, None]] = {}
        for at_listener, (times, at) in chain.from_iterable(minute.items() for minute in minutes):
            offence = msgspec.structs.replace(at_listener, listener="")
            before, last_at = found.get(offence, (0, 0.0))
            found[offence] = before + times, max(last_at, at)
            listeners.setdefault(offence, {})[at_listener.listener] = None
        return [
            Offender(
                offence.rule,
                offence.level,
                offence.role,
                (offence.software_name, offence.software_version),
                offence.cluster,
                offence.owner,
                list(filter(None, listeners[offence])),
                *seen,
            )
            for offence, seen in found.items()
        ]

    def _forget(self, now: float) -> None:
        for minute in [each for each in self._minutes if each <= now // _MINUTE - WINDOW_MINUTES]:
            del self._minutes[minute]


class LatestFindings:
    """The latest few findings of each rule, so that a storm against one hides no other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_rule: dict[str, dict[str, Finding]] = {}

    def noting(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings as they come, and note them."""
        for finding in findings:
            self._note(finding)
            yield finding

    def all(self) -> list[Finding]:
        """Return what is noted, the latest first."""
        with self._lock:
            noted = [finding for of_rule in self._by_rule.values() for finding in of_rule.values()]
        return sorted(noted, key=lambda finding: -finding.last_captured_at)

    def _note(self, finding: Finding) -> None:
        with self._lock:
            of_rule = self._by_rule.setdefault(finding.rule, {})
            of_rule.pop(finding.id, None)
            of_rule[finding.id] = finding
            if len(of_rule) > SHOWN:
                del of_rule[next(iter(of_rule))]
