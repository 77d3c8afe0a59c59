"""Examining captures: the whole road from packets to findings in one process, without Kafka, Spark or Java.

The code is that of the feeder and the query. The size of the window changes no finding.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.columnar.joining import joined
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.assembly import MAX_FRAME
from decoders.wire.columnar.frames import FrameBatch
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.packet import Packet
from decoders.wire.tracker import Tracker
from expectations.conversation.columnar.arrival import Arrival
from expectations.conversation.columnar.windows import ColumnarWindows
from expectations.judging.finding import Finding
from expectations.judging.identity_state import IdentityState
from expectations.judging.terms import Terms
from expectations.report.broker import Broker
from expectations.report.client import Client
from expectations.report.coverage import Coverage, coverage_of
from expectations.report.usage import ClientUsage
from streaming.check.collector import CollectingIdentityJudge, CollectingJudge, Collector
from streaming.check.recording import FILE_SHIFT, Recording, file_position
from streaming.feeder.key_log_files import read_key_logs
from streaming.judging.bucket_step import BucketStep
from streaming.judging.identity_step import IdentityStep
from streaming.judging.report import Report
from streaming.state.bucket import Bucket

if TYPE_CHECKING:
    from streaming.archive.capture_archive import CaptureArchive

WINDOW = 250_000
"""Records that are judged at a time: the more, the fewer observations they fold to."""
Through = Callable[[Iterable[PacketBatch]], Iterable[PacketBatch]]
"""What packets pass through before they are read, such as a progress bar."""


class FileRead(msgspec.Struct, frozen=True):
    """The share of one file: frames and connections that begin in it, and findings about those frames."""

    file: str
    frames: int
    connections: int
    findings: int
    truncated: bool


class Examination(msgspec.Struct):
    """The results of one capture. `undecodable` counts frames by reason.

    `ledger` counts the captured bytes by fate, `packets` those with a TCP segment and those skipped, by
    reason. `opaque` counts connections that are not Kafka. `companions` maps the id of a finding to the
    connections, in hex, that it is about, the nearest first.
    """

    findings: list[Finding]
    coverage: list[Coverage]
    files: list[FileRead]
    undecodable: dict[str, int]
    ledger: dict[str, int]
    packets: dict[str, int]
    opaque: int
    clients: list[Client]
    usage: list[ClientUsage]
    brokers: list[Broker]
    companions: dict[str, list[str]]

    @property
    def frames(self) -> int:
        """The number of requests and responses."""
        return sum(file.frames for file in self.files)

    @property
    def connections(self) -> int:
        """The number of connections."""
        return sum(file.connections for file in self.files)

    @property
    def truncated(self) -> bool:
        """Whether a file ends inside a packet."""
        return any(file.truncated for file in self.files)

    @property
    def violates(self) -> bool:
        """Whether any finding is of level violation."""
        return any(finding.level == "violation" for finding in self.findings)


def records_of(
    schemas: Schemas,
    packets: Iterable[Packet],
    ports: Iterable[int],
    run: int,
    max_frame: int = MAX_FRAME,
    *,
    key_log: KeyLog | None = None,
) -> tuple[Iterator[Record], Tracker]:
    """Return the records of packets, and the tracker whose ledger fills as they are read."""
    tracker = Tracker(schemas, ports=frozenset(ports), run=run, max_frame=max_frame, key_log=key_log)

    def read() -> Iterator[Record]:
        for packet in packets:
            yield from tracker.feed(packet)
        yield from tracker.finish()

    return read(), tracker


def examine(
    path: Path | Sequence[Path],
    schemas: Schemas,
    ports: Iterable[int] = (),
    terms: Terms | None = None,
    max_frame: int = MAX_FRAME,
    *,
    key_logs: Sequence[Path] = (),
    window: int = WINDOW,
    through: Through = iter,
    archive: CaptureArchive | None = None,
) -> Examination:
    """Judge one capture: a file, plain or compressed, a folder of rotated files, or several of these.

    Without `ports` the side that accepted the connection is the broker. A length above `max_frame` bytes is
    not a frame's. TLS is decrypted with the secrets of `key_logs` and of the capture itself. A file that ends
    inside a packet is judged up to there. The results go to the `archive`, too. Raises UserError if a file
    cannot be read, or the archive not be written.
    """
    key_log = read_key_logs(key_logs)
    names, terms = schemas.api_names, terms or Terms()
    recording = Recording([path] if isinstance(path, Path) else path, key_log)
    collector, tally = Collector(terms.rules, names), _Tally(recording, archive)
    judge = CollectingJudge(collector, names, terms)
    step, bucket = BucketStep(judge, names, counts_usage=archive is not None), Bucket()
    identity_step, identities = (
        IdentityStep(CollectingIdentityJudge(collector, names, terms)),
        IdentityState(),
    )
    tracker = ColumnarTracker(
        schemas, ports=frozenset(ports), run=recording.run, max_frame=max_frame, key_log=key_log
    )
    _, columnar = _columnar(schemas)
    packets = tally.noting(through(recording.batches()))
    for batch in joined(_cut_frames(schemas, tracker, packets), window):
        tally.count(batch)
        for windows in columnar.slices_of(Arrival.of_file(batch, ""), window):
            report = step.process(0, bucket, terms.named(windows))
            tally.add(report, bucket.clock)
            tally.add(identity_step.process(0, identities, report.claims), bucket.clock)
    for state in bucket.connections.values():
        tally.findings.update({finding.id: finding for finding in judge.republish(state)})
        tally.add(identity_step.process(0, identities, judge.latest_claims(state)), bucket.clock)
    collector.fleet.finish()
    tally.add(identity_step.finish(0, identities), bucket.clock)
    return tally.examination(tracker, collector)


@functools.lru_cache(maxsize=1)
def _columnar(schemas: Schemas) -> tuple[ColumnarCutter, ColumnarWindows]:
    """Build the columnar readers once: that takes longer than judging a small capture."""
    return ColumnarCutter(schemas), ColumnarWindows(schemas)


def _cut_frames(
    schemas: Schemas, tracker: ColumnarTracker, packets: Iterable[PacketBatch]
) -> Iterator[FrameBatch]:
    """Turn packets into frames, cut to what may be kept."""
    cutter, _ = _columnar(schemas)
    for batch in packets:
        yield cutter.cut(tracker.feed(batch))
    yield cutter.cut(tracker.finish())


class _Tally:
    """Adds up the reports of all windows, and counts frames and connections per file. Fills the archive."""

    def __init__(self, recording: Recording, archive: CaptureArchive | None) -> None:
        self._archive = archive
        if archive is not None:
            archive.begin(recording.run)
        self.findings: dict[str, Finding] = {}
        self._recording = recording
        self._checks: dict[tuple[str, str], int] = {}
        self._undecodable: dict[str, int] = {}
        self._frames = np.zeros(len(recording.files), np.int64)
        self._connections = np.zeros(len(recording.files), np.int64)
        self._positions = array("q")

    def noting(self, batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        """Record where each packet begins as it passes."""
        for batch in batches:
            self._positions.frombytes(batch.positions.tobytes())
            yield batch

    def count(self, batch: FrameBatch) -> None:
        """Count frames and connections by the files in which they begin."""
        opened = [event.position for event in batch.events if event.kind is Kind.OPENED]
        self._frames += self._by_file(batch.frames.positions)
        self._connections += self._by_file(np.array(opened, np.int64))

    def add(self, report: Report, at: int) -> None:
        """Add a report; `at` is the latest capture, in nanoseconds."""
        if self._archive is not None:
            self._archive.add(report, at)
        self.findings.update({finding.id: finding for finding in report.findings})
        for rule, verdicts in report.checks.items():
            for verdict, count in verdicts.items():
                self._checks[rule, verdict] = self._checks.get((rule, verdict), 0) + count
        for reason, count in report.undecodable.items():
            self._undecodable[reason] = self._undecodable.get(reason, 0) + count

    def examination(self, tracker: ColumnarTracker, collector: Collector) -> Examination:
        """Return the results."""
        findings = sorted(self.findings.values(), key=lambda finding: finding.sequence)
        placed = self._placed(findings)
        if self._archive is not None:
            self._archive.finish(placed)
        return Examination(
            findings=placed,
            coverage=coverage_of(self._checks, collector.rules),
            files=self._files(findings),
            undecodable=self._undecodable,
            ledger=tracker.ledger.fates(),
            packets=dict(tracker.ledger.packets),
            opaque=tracker.ledger.opaque_connections,
            clients=collector.fleet.clients(),
            usage=collector.fleet.usage(),
            brokers=collector.fleet.brokers(),
            companions={finding.id: collector.companions.of(finding) for finding in findings},
        )

    def _by_file(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(positions >> FILE_SHIFT, minlength=len(self._recording.files))

    def _files(self, findings: Sequence[Finding]) -> list[FileRead]:
        found = self._by_file(np.array([finding.evidence.position for finding in findings], np.int64))
        return [
            FileRead(str(path), int(frames), int(connections), int(count), path in self._recording.truncated)
            for path, frames, connections, count in zip(
                self._recording.files, self._frames, self._connections, found, strict=True
            )
        ]

    def _placed(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings with the file of their frame, and the number of its packet there."""
        positions = np.frombuffer(self._positions, np.int64)
        placed = []
        for finding in findings:
            position = finding.evidence.position or 0
            file, inside = file_position(position)
            first, packet = np.searchsorted(positions, (file << FILE_SHIFT, position)).tolist()
            evidence = msgspec.structs.replace(
                finding.evidence,
                source=self._recording.files[file].name,
                position=inside,
                packet=packet - first + 1,
            )
            placed.append(msgspec.structs.replace(finding, evidence=evidence))
        return placed
