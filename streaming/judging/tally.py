"""The tally of one step: adds up what was judged and counted, and becomes the step's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from decoders.frame.record import Kind
from expectations.conversation.window import Window
from expectations.judging.outcome import Outcome
from streaming.judging.report import Report

UNKNOWN: Final = "unknown"

Check = tuple[str, str]
"""A rule's id and a verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameChecks:
    """The checks that each frame of an observation counts under. Compared by identity, which is fast."""

    api_key: int
    kind: Kind
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpeningChecks:
    """What each opening of one form counts as: its frames by API key and kind, and its checks."""

    frames: Mapping[tuple[int, Kind], int]
    checks: Mapping[Check, int]


class Tally:
    """Adds up outcomes, frames and cached checks."""

    def __init__(self, api_names: Mapping[int, str]) -> None:
        self._api_names = api_names
        self._judged = Outcome()
        self._frames: dict[tuple[int, str], int] = {}
        self._undecodable: dict[str, int] = {}
        self._cached: dict[FrameChecks, int] = {}
        self._openings: dict[OpeningChecks, int] = {}

    def add(self, outcome: Outcome) -> None:
        """Add an outcome of the judge."""
        self._judged.add(outcome)

    def count_frames(self, window: Window) -> None:
        """Count the frames of a window, and those of them that could not be decoded."""
        for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
            statement = window.statements[number]
            if statement.kind is Kind.REQUEST or statement.kind is Kind.RESPONSE:
                self._count_frames(statement.api_key, statement.kind, occurrence.count)
            if statement.failure is not None:
                self._count_undecodable(statement.failure.reason, occurrence.count)
            elif not statement.known:
                self._count_undecodable("unknown-api", occurrence.count)

    def count_checks(self, checks: FrameChecks, count: int) -> None:
        """Count `count` frames and the checks of each."""
        self._cached[checks] = self._cached.get(checks, 0) + count

    def count_opening(self, checks: OpeningChecks) -> None:
        """Count the frames and checks of an opening."""
        self._openings[checks] = self._openings.get(checks, 0) + 1

    def report(self, number: int) -> Report:
        """Return the report of bucket `number`."""
        self._add_cached()
        judged = self._judged
        report = Report(
            number,
            findings=judged.findings,
            claims=judged.claims,
            undecodable=self._undecodable,
            ranges_changes=judged.ranges_changes,
        )
        report.offences.extend(judged.offences.items())
        for (rule, verdict), count in judged.checks.items():
            report.checks.setdefault(rule, {})[verdict] = count
        for (api_key, kind), count in self._frames.items():
            kinds = report.frames.setdefault(self._api_names.get(api_key, UNKNOWN), {})
            kinds[kind] = kinds.get(kind, 0) + count
        return report

    def _add_cached(self) -> None:
        for cached, count in self._cached.items():
            self._count_frames(cached.api_key, cached.kind, count)
            self._judged.add(Outcome(checks=dict.fromkeys(cached.checks, count)))
        for opening, times in self._openings.items():
            for (api_key, kind), count in opening.frames.items():
                self._count_frames(api_key, kind, count * times)
            self._judged.add(
                Outcome(checks={check: count * times for check, count in opening.checks.items()})
            )
        self._cached.clear()
        self._openings.clear()

    def _count_frames(self, api_key: int, kind: Kind, count: int) -> None:
        key = api_key, "request" if kind is Kind.REQUEST else "response"
        self._frames[key] = self._frames.get(key, 0) + count

    def _count_undecodable(self, reason: str, count: int) -> None:
        self._undecodable[reason] = self._undecodable.get(reason, 0) + count
