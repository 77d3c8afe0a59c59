"""The tally of one step: what was judged and counted adds up here, and is told by name at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from decoders.frame.record import Kind
from expectations.conversation.observation import Observation
from expectations.judging.outcome import Outcome
from streaming.judging.report import Report

UNKNOWN: Final = "unknown"

Check = tuple[str, str]
"""A rule's id and a verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a plain observation comes to: the checks that each of its frames is counted under."""

    api_key: int
    kind: Kind
    checks: tuple[Check, ...]


class Tally:
    """What was judged, put together; frames as counts."""

    def __init__(self, api_names: Mapping[int, str]) -> None:
        self._api_names = api_names
        self._judged = Outcome()
        self._frames: dict[tuple[int, str], int] = {}
        self._undecodable: dict[str, int] = {}
        self._repeated: dict[Judged, int] = {}

    def add(self, outcome: Outcome) -> None:
        """Add what was judged."""
        self._judged.add(outcome)

    def count(self, observations: Sequence[Observation]) -> None:
        """Count the frames of observations, and those of them that could not be decoded."""
        for seen in observations:
            if seen.kind is Kind.REQUEST or seen.kind is Kind.RESPONSE:
                self._count_frames(seen.api_key, seen.kind, seen.count)
            if seen.failure is not None:
                self._count_undecodable(seen.failure.reason, seen.count)
            elif not seen.known:
                self._count_undecodable("unknown-api", seen.count)

    def repeat(self, judged: Judged, count: int) -> None:
        """Count so many frames, and what each of them comes to."""
        self._repeated[judged] = self._repeated.get(judged, 0) + count

    def report(self, number: int) -> Report:
        """Tell what came together, as the report of a bucket."""
        for judged, count in self._repeated.items():
            self._count_frames(judged.api_key, judged.kind, count)
            self._judged.add(Outcome(checks=dict.fromkeys(judged.checks, count)))
        self._repeated.clear()
        told = self._judged
        report = Report(number, findings=told.findings, claims=told.claims, undecodable=self._undecodable)
        report.offences.extend(told.offences.items())
        for (rule, verdict), count in told.checks.items():
            report.checks.setdefault(rule, {})[verdict] = count
        for (api_key, kind), count in self._frames.items():
            kinds = report.frames.setdefault(self._api_names.get(api_key, UNKNOWN), {})
            kinds[kind] = kinds.get(kind, 0) + count
        return report

    def _count_frames(self, api_key: int, kind: Kind, count: int) -> None:
        key = api_key, "request" if kind is Kind.REQUEST else "response"
        self._frames[key] = self._frames.get(key, 0) + count

    def _count_undecodable(self, reason: str, count: int) -> None:
        self._undecodable[reason] = self._undecodable.get(reason, 0) + count
