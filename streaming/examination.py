"""Examining a capture file: the whole road in one process, without Kafka, Spark or Java.

Packets become frames, frames facts, facts findings, by the same code that the feeder and the query
run. The size of the window changes no finding.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.columnar.joining import joined
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.packet import Packet
from decoders.wire.tracker import Tracker
from expectations.catalogue import RULES
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.window import ColumnarWindows
from expectations.finding import Finding
from expectations.identity.judge import IdentityState
from expectations.report.broker import Broker
from expectations.report.coverage import Coverage, coverage_of
from expectations.report.fleet import Client
from expectations.rule import Rule
from streaming.audience import Audience, HeardIdentityJudge, HeardJudge
from streaming.feeder.source import TruncatedCaptureError, open_capture, run_of_file
from streaming.query.bucket import Bucket, BucketStep, Report
from streaming.query.identities import IdentityStep

WINDOW = 250_000
"""Records judged at a time: the more, the fewer observations their likes fold to."""
Through = Callable[[Iterable[PacketBatch]], Iterable[PacketBatch]]
"""What packets pass through on their way, such as a progress bar."""


class Examination(msgspec.Struct):
    """What a capture holds. `frames` counts requests and responses; `undecodable` by reason.

    `ledger` tells where the captured bytes went, `packets` how many held a TCP segment or were skipped
    for a reason, `opaque` how many connections are not Kafka; `truncated` that the file ends inside a packet.
    `companions` gives, by finding id, the connections in hex that the finding is about.
    """

    findings: list[Finding]
    coverage: list[Coverage]
    frames: int
    undecodable: dict[str, int]
    connections: int
    ledger: dict[str, int]
    packets: dict[str, int]
    opaque: int
    truncated: bool
    clients: list[Client]
    brokers: list[Broker]
    companions: dict[str, set[str]]

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
    *,
    window: int = WINDOW,
    rules: Sequence[Rule] = RULES,
    through: Through = iter,
    audience: Audience | None = None,
) -> Examination:
    """Judge one capture: a file, plain or compressed, or a folder of files that were rotated.

    Without `ports` the side that was connected to is the broker. Of a file that ends inside a packet
    what is whole is judged. An audience that is given has heard other captures before, and tells of all.
    Raises UserError when the file cannot be read.
    """
    names = schemas.api_names
    audience, numbers = audience or Audience(rules, names), _PacketNumbers()
    judge = HeardJudge(audience, names, listeners, rules)
    step, bucket, tally = BucketStep(judge, names), Bucket(), _Tally()
    identity_step = IdentityStep(HeardIdentityJudge(audience, names, listeners, rules))
    identities = IdentityState()
    tracker = ColumnarTracker(schemas, ports=frozenset(ports), run=run_of_file(path))
    _, windows = _columnar(schemas)
    with suppress(TruncatedCaptureError), open_capture(path) as capture:
        packets = numbers.noting(through(capture.batches()))
        for batch in joined(_cut_frames(schemas, tracker, packets), window):
            tally.opened += sum(event.kind is Kind.OPENED for event in batch.events)
            for heard in windows.slices_of(Arrival.of_file(batch, path.name), window):
                report = step.hear(0, bucket, heard)
                tally.add(report)
                tally.add(identity_step.hear(0, identities, report.claims))
    for state in bucket.connections.values():
        tally.findings.update({finding.id: finding for finding in judge.republish(state)})
        tally.add(identity_step.hear(0, identities, judge.latest_claims(state)))
    audience.fleet.finish()
    tally.add(identity_step.finish(0, identities))
    return tally.examination(tracker, capture.truncated, audience, numbers)


@functools.lru_cache(maxsize=1)
def _columnar(schemas: Schemas) -> tuple[ColumnarCutter, ColumnarWindows]:
    """Make what reads columns, once: that takes longer than to judge a small capture."""
    return ColumnarCutter(schemas), ColumnarWindows(schemas)


def _cut_frames(
    schemas: Schemas, tracker: ColumnarTracker, packets: Iterable[PacketBatch]
) -> Iterator[FrameBatch]:
    """Turn packets into as much of their frames as may be kept."""
    cutter, _ = _columnar(schemas)
    for batch in packets:
        yield cutter.cut(tracker.feed(batch))
    yield cutter.cut(tracker.finish())


class _PacketNumbers:
    """Which packet of the source, counted from 1, begins at a byte."""

    def __init__(self) -> None:
        self._positions = array("q")

    def noting(self, batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        """Note where each packet begins as it passes."""
        for batch in batches:
            self._positions.frombytes(batch.positions.tobytes())
            yield batch

    def number(self, finding: Finding) -> Finding:
        """Give the finding with the number of the packet in which its frame begins."""
        evidence = finding.evidence
        packet = bisect_left(self._positions, evidence.position or 0) + 1
        return msgspec.structs.replace(finding, evidence=msgspec.structs.replace(evidence, packet=packet))


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

    def examination(
        self, tracker: ColumnarTracker, truncated: bool, audience: Audience, numbers: _PacketNumbers
    ) -> Examination:
        findings = sorted(self.findings.values(), key=lambda finding: finding.sequence)
        return Examination(
            findings=[numbers.number(finding) for finding in findings],
            coverage=coverage_of(self.checks, audience.rules),
            frames=self.frames,
            undecodable=self.undecodable,
            connections=self.opened,
            ledger=tracker.ledger.fates(),
            packets=dict(tracker.ledger.packets),
            opaque=tracker.ledger.opaque_connections,
            truncated=truncated,
            clients=audience.fleet.clients(),
            brokers=audience.fleet.brokers(),
            companions={finding.id: audience.companions.of(finding) for finding in findings},
        )
