"""Examining a capture file: the whole road in one process, without Kafka, Spark or Java.

Packets become frames, frames facts, facts findings, by the same code that the feeder and the query
run. The size of the window changes no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from decoders.frame.cutting import cut
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.packet import Packet
from decoders.wire.tracker import Tracker
from expectations.conversation.observation import Evidence
from expectations.conversation.window import windows_of
from expectations.finding import Finding
from expectations.judge import Judge
from expectations.report.coverage import Coverage, coverage_of
from streaming.feeder.source import TruncatedCaptureError, open_capture, run_of_file
from streaming.query.bucket import Bucket, BucketStep, Report

WINDOW = 2_000
"""Records judged at a time."""


class Examination(msgspec.Struct):
    """What a capture holds. `frames` counts requests and responses; `undecodable` by reason.

    `ledger` tells where the captured bytes went; `truncated` that the file ends inside a packet.
    """

    findings: list[Finding]
    coverage: list[Coverage]
    frames: int
    undecodable: dict[str, int]
    connections: int
    ledger: dict[str, int]
    truncated: bool

    @property
    def violates(self) -> bool:
        """Whether any finding is of level violation."""
        return any(finding.level == "violation" for finding in self.findings)


def records_of(
    schemas: Schemas, packets: Iterable[Packet], ports: Iterable[int], run: int
) -> tuple[Iterator[Record], Tracker]:
    """Turn packets into records, and give the tracker whose ledger fills as they are read."""
    tracker = Tracker(schemas, ports=frozenset(ports), run=run)

    def read() -> Iterator[Record]:
        for packet in packets:
            yield from tracker.feed(packet)
        yield from tracker.finish()

    return read(), tracker


def examine(
    path: Path,
    schemas: Schemas,
    ports: Iterable[int] = (),
    listeners: Mapping[str, str] | None = None,
    window: int = WINDOW,
) -> Examination:
    """Judge one capture file.

    Without `ports` the side that was connected to is the broker. Of a file that ends inside a packet
    what is whole is judged. Raises UserError when the file cannot be read.
    """
    names = schemas.api_names
    judge = Judge(names, listeners)
    step, bucket, tally = BucketStep(judge, names), Bucket(), _Tally()
    with suppress(TruncatedCaptureError), open_capture(path) as packets:
        records, tracker = records_of(schemas, packets, ports, run_of_file(path))
        placed = (_placed(schemas, record, path.name) for record in records)
        while batch := list(islice(placed, window)):
            tally.opened += sum(record.kind is Kind.OPENED for record, _ in batch)
            tally.add(step.hear(0, bucket, windows_of(schemas, batch)))
    for state in bucket.connections.values():
        tally.findings.update({finding.id: finding for finding in judge.republish(state)})
    return tally.examination(tracker, packets.truncated)


def _placed(schemas: Schemas, record: Record, source: str) -> tuple[Record, Evidence]:
    kept = cut(schemas, record)
    return kept, Evidence.in_file(source, kept)


class _Tally:
    """Adds the reports of all windows up."""

    def __init__(self) -> None:
        self.findings: dict[str, Finding] = {}
        self.checks: dict[tuple[str, str], int] = {}
        self.undecodable: dict[str, int] = {}
        self.frames = 0
        self.opened = 0

    def add(self, report: Report) -> None:
        self.findings.update({finding.id: finding for finding in report.findings})
        for rule, verdicts in report.checks.items():
            for verdict, count in verdicts.items():
                self.checks[rule, verdict] = self.checks.get((rule, verdict), 0) + count
        for reason, count in report.undecodable.items():
            self.undecodable[reason] = self.undecodable.get(reason, 0) + count
        self.frames += sum(count for kinds in report.frames.values() for count in kinds.values())

    def examination(self, tracker: Tracker, truncated: bool) -> Examination:
        return Examination(
            findings=sorted(self.findings.values(), key=lambda finding: finding.sequence),
            coverage=coverage_of(self.checks),
            frames=self.frames,
            undecodable=self.undecodable,
            connections=self.opened,
            ledger=tracker.ledger.fates(),
            truncated=truncated,
        )
