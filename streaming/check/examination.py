"""Examining captures: from packets to findings in one process, without Kafka, Spark or Java.

The code is that of the feeder and the query, with one bucket for all connections. The size of the window
changes no finding. Two judges derived from the query's fill a `Collector` as they judge: with the report of
the fleet, and with the connections that are related to a finding. The query collects neither.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.record import Closing, Kind, Record
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.frames import FrameBatch, joined
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.framing import MAX_FRAME
from decoders.wire.segment import Packet
from decoders.wire.tracker import Tracker
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.conversation.observation import Window
from expectations.conversation.progress import ApiVersion
from expectations.identity.claim import OF_CLIENTS, Claim, Identity
from expectations.judging.finding import Finding
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import CLAIM_LIMITS, Identities, IdentityState
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.report.client import Client
from expectations.report.coverage import Coverage, coverage_of
from expectations.report.fleet import ClientUsage, Fleet, Party
from expectations.report.versions import AdvertisingBroker
from expectations.rules.base.rule import IdentityRule, Rule
from streaming.check.recording import FILE_SHIFT, Recording, Through
from streaming.feeder.capture_stream import path_text
from streaming.feeder.key_log_files import read_key_logs
from streaming.judging.part import Part
from streaming.judging.report import Report
from streaming.judging.step import identity_report, judge_window
from streaming.judging.tally import Tally

if TYPE_CHECKING:
    from streaming.archive.archive import CaptureArchive


WINDOW = 250_000
"""Records that are judged together. Larger windows fold to fewer observations."""
MOST_CLAIMS = {**CLAIM_LIMITS, **dict.fromkeys(OF_CLIENTS, 1_024)}
"""Claims that are kept of one identity. A query judges claims after a minute or two and may then forget.
Here all are judged at the end, and a test suite opens hundreds of connections under one client ID."""


class FileRead(msgspec.Struct, frozen=True):
    """The share of one file: frames and connections that begin in it, and findings about those frames."""

    file: str
    frames: int
    connections: int
    findings: int
    truncated: bool


class Examination(msgspec.Struct):
    """The results of one capture. `undecodable` counts frames by reason.

    `ledger` counts the captured bytes by fate, `packets` the packets with a TCP segment and, by reason, those
    skipped, `contradictions` segments by what they contradict. `opaque` counts connections that are not
    Kafka. `companions` maps the ID of a finding to the connections, in hex, that it is about, the nearest
    first. `parties` has who connected, and how often. `unread` says why files of a folder were
    left out, and what damage ended a file early.
    """

    findings: list[Finding]
    coverage: list[Coverage]
    files: list[FileRead]
    undecodable: dict[str, int]
    ledger: dict[str, int]
    packets: dict[str, int]
    contradictions: dict[str, int]
    opaque: int
    clients: list[Client]
    usage: list[ClientUsage]
    brokers: list[AdvertisingBroker]
    companions: dict[str, list[str]]
    parties: list[tuple[Party, int]]
    unread: list[str]

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


_Showing = tuple[int, str]
"""When a server showed something, and to which connection, in hex."""


class Companions:
    """The connections that showed the same identity, for each finding.

    Of what servers show, only the first and the last connection that showed the same are kept.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.id: rule for rule in rules if isinstance(rule, IdentityRule)}
        self._identities: dict[str, set[Identity]] = {}
        self._connections: dict[Identity, dict[str, int]] = {}
        self._ends: dict[Identity, dict[int, tuple[_Showing, _Showing]]] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        """Add claims, of one connection or of several."""
        for claim in claims:
            if claim.connection:
                connection = claim.connection.hex()
                self._identities.setdefault(connection, set()).add(claim.identity)
                self._connections.setdefault(claim.identity, {})[connection] = claim.opened_at
            elif claim.witness:
                ends, shown = self._ends.setdefault(claim.identity, {}), (claim.since, claim.witness.hex())
                first, last = ends.get(claim.first_sequence, (shown, shown))
                ends[claim.first_sequence] = min(first, shown), max(last, shown)

    def of(self, finding: Finding) -> list[str]:
        """Return the connections of a finding, in hex, the nearest first.

        The finding's own is the first. Those it was compared with follow: those opened before it, the latest
        first, then those opened after it. Connections on which a server showed something come second to the
        nearest of these.
        """
        rule, shown = self._rules.get(finding.rule), self._identities.get(finding.connection, ())
        if rule is None:
            return [finding.connection]
        about = [finding.connection]
        for identity in sorted(shown, key=lambda identity: (identity.kind, identity.name)):
            if rule.judges(identity.kind):
                opened_at = self._connections[identity]
                connections = sorted(opened_at, key=lambda each: (opened_at[each], each))
                own = connections.index(finding.connection)
                nearest = [*reversed(connections[:own]), *connections[own + 1 :]]
                ends = itertools.chain.from_iterable(self._ends.get(identity, {}).values())
                about += [*nearest[:1], *(connection for _, connection in sorted(ends)), *nearest[1:]]
        return list(dict.fromkeys(about))


class Collector:
    """The fleet's report and the companions of findings, filled while a source is judged."""

    def __init__(self, terms: Terms, api_names: Mapping[int, str]) -> None:
        self.rules = terms.rules
        self.fleet = Fleet(terms.rules, api_names, terms.owner)
        self.companions = Companions(terms.rules)


class CollectingJudge(Judge):
    """Records in the fleet what each connection said and how it was judged."""

    def __init__(self, collector: Collector, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms)
        self._collector = collector

    def judge(self, state: ConnectionState, window: Window) -> Outcome:
        outcome = super().judge(state, window)
        self._collector.fleet.record(state.conversation, window.observations, outcome.checks)
        self._collector.companions.add(claim for claim in outcome.claims if claim.witness)
        return outcome


class CollectingIdentityJudge(IdentityJudge):
    """Records verdicts on identities in the fleet, and which connections showed which identity."""

    def __init__(self, collector: Collector, api_names: Mapping[int, str], terms: Terms) -> None:
        super().__init__(api_names, terms, MOST_CLAIMS)
        self._collector = collector

    def process(self, state: Identities, claims: Iterable[Claim]) -> Outcome:
        claims = list(claims)
        self._collector.companions.add(claims)
        return self._recorded(super().process(state, claims))

    def finish(self, state: IdentityState) -> Outcome:
        """Judge all claims, since no further one will come."""
        return self._recorded(super().finish(state))

    def _recorded(self, outcome: Outcome) -> Outcome:
        self._collector.fleet.record_shared(outcome.judged)
        return outcome


def records_of(
    schemas: Schemas,
    packets: Iterable[Packet],
    ports: Iterable[int],
    run: int,
    max_frame: int = MAX_FRAME,
    *,
    key_log: KeyLog | None = None,
) -> Iterator[Record]:
    """Yield the records of packets."""
    tracker = Tracker(schemas, ports=frozenset(ports), run=run, max_frame=max_frame, key_log=key_log)
    for packet in packets:
        yield from tracker.feed(packet)
    yield from tracker.finish()


def examine(
    paths: Path | Sequence[Path],
    schemas: Schemas,
    ports: Iterable[int] = (),
    terms: Terms | None = None,
    max_frame: int = MAX_FRAME,
    *,
    key_logs: Sequence[Path] = (),
    window: int = WINDOW,
    through: Through = iter,
    archive: CaptureArchive | None = None,
    keeps_principals: bool = False,
) -> Examination:
    """Judge one capture: a file or pipe, plain or compressed, a folder of rotated files, or several of these.

    Without `ports` the side that accepted the connection is the broker. A length above `max_frame` bytes is
    not a frame's. TLS is decrypted with the secrets of `key_logs` and of the capture itself. A file that ends
    inside a packet, or is damaged, is judged up to there. Findings have the names under which clients log in
    if it `keeps_principals`. The results go to the `archive`, too. Raises UserError if a file cannot be read,
    or the archive not be written.
    """
    key_log = read_key_logs(key_logs)
    names, terms = schemas.api_names, terms or Terms()
    recording = Recording([paths] if isinstance(paths, Path) else paths, key_log)
    collector, tally = Collector(terms, names), _FilesTally(recording, archive)
    judge = CollectingJudge(collector, names, terms)
    states, answered, clock = dict[bytes, ConnectionState](), dict[str, set[ApiVersion]](), 0
    identity_judge = CollectingIdentityJudge(collector, names, terms)
    identities = IdentityState()
    tracker = ColumnarTracker(
        schemas,
        ports=frozenset(ports),
        run=recording.run,
        secret=secrets.token_bytes(),
        max_frame=max_frame,
        key_log=key_log,
        keeps_principals=keeps_principals,
    )
    cutter, windows = _columnar(schemas)
    packets = tally.noting(through(recording.batches()))
    for batch in joined(_cut_frames(cutter, tracker, packets), window):
        tally.count(batch)
        for columns in windows.slices_of(Arrival.of_file(batch, ""), window):
            step = Tally(schemas.by_key, terms.listener, answered, archives=archive is not None)
            part = Part(terms.named(columns))
            clock = int(part.values("last_captured_at").max(initial=clock))
            _judge(judge, part, states, step)
            report = step.report(0)
            tally.add(report, clock)
            tally.add(identity_report(0, identity_judge.process(identities, step.claims())), clock)
    for state in states.values():
        tally.findings.update({finding.id: finding for finding in judge.republish(state)})
        tally.add(identity_report(0, identity_judge.process(identities, judge.latest_claims(state))), clock)
    collector.fleet.finish()
    tally.add(identity_report(0, identity_judge.finish(identities)), clock)
    return tally.examination(tracker, collector)


def _judge(judge: Judge, part: Part, states: dict[bytes, ConnectionState], tally: Tally) -> None:
    """Judge windows by the rules. `states` are those of the open connections."""
    for number, window in enumerate(part.columns.windows()):
        key = window.connection
        state = states.get(key.id) or open_connection(key)
        judge_window(judge, state, window, number, part, tally)
        if state.conversation.closed:
            states.pop(key.id, None)
        else:
            states[key.id] = state
    tally.count(part)


@functools.lru_cache(maxsize=1)
def _columnar(schemas: Schemas) -> tuple[ColumnarCutter, ColumnarWindows]:
    """Build the columnar readers once: that takes longer than judging a small capture."""
    return ColumnarCutter(schemas), ColumnarWindows(schemas, secrets.token_bytes())


def _cut_frames(
    cutter: ColumnarCutter, tracker: ColumnarTracker, packets: Iterable[PacketBatch]
) -> Iterator[FrameBatch]:
    """Turn packets into frames, cut to what may be kept."""
    for batch in packets:
        yield cutter.cut(tracker.feed(batch))
    yield cutter.cut(tracker.finish())


class _FilesTally:
    """Adds up the reports of all windows, and counts frames and connections per file. Fills the archive."""

    def __init__(self, recording: Recording, archive: CaptureArchive | None) -> None:
        self._archive = archive
        if archive is not None:
            archive.begin(recording.run)
        self.findings: dict[str, Finding] = {}
        self._recording = recording
        self._checks: Counter[tuple[str, str]] = Counter()
        self._undecodable: Counter[str] = Counter()
        self._frames, self._connections = np.zeros((2, len(recording.files)), np.int64)
        self._positions = array("q")

    def noting(self, batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        """Record where each packet begins as it passes."""
        for batch in batches:
            self._positions.frombytes(batch.positions.tobytes())
            yield batch

    def count(self, batch: FrameBatch) -> None:
        """Count frames and connections by the files in which they begin."""
        changes, others = batch.events.changes, batch.events.others
        opened = [event.position for event in others if event.kind is Kind.OPENED]
        opened += changes.positions[changes.closings == Closing.NONE].tolist()
        self._frames += self._by_file(batch.frames.positions)
        self._connections += self._by_file(np.array(opened, np.int64))

    def add(self, report: Report, at: int) -> None:
        """Add a report; `at` is the latest capture, in nanoseconds."""
        if self._archive is not None:
            self._archive.add(report, at)
        self.findings.update({finding.id: finding for finding in report.findings})
        for rule, rulings in report.checks.items():
            for ruling, count in rulings.items():
                self._checks[rule, ruling] += count
        self._undecodable.update(report.undecodable)

    def examination(self, tracker: ColumnarTracker, collector: Collector) -> Examination:
        findings = sorted(self.findings.values(), key=lambda finding: finding.sequence)
        placed = self._placed(findings)
        if self._archive is not None:
            self._archive.finish(placed)
        return Examination(
            findings=placed,
            coverage=coverage_of(self._checks, collector.rules),
            files=self._files(findings),
            undecodable=dict(self._undecodable),
            ledger=tracker.ledger.fates(),
            packets=dict(tracker.ledger.packets),
            contradictions={str(kind): count for kind, count in tracker.ledger.contradictions.items()},
            opaque=tracker.ledger.opaque_connections,
            clients=collector.fleet.clients(),
            usage=collector.fleet.usage(),
            brokers=collector.fleet.brokers(),
            companions={finding.id: collector.companions.of(finding) for finding in findings},
            parties=collector.fleet.parties(),
            unread=self._recording.unread,
        )

    def _by_file(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(positions >> FILE_SHIFT, minlength=len(self._recording.files))

    def _files(self, findings: Sequence[Finding]) -> list[FileRead]:
        found = self._by_file(np.array([finding.evidence.position for finding in findings], np.int64))
        return [
            FileRead(
                path_text(path), int(frames), int(connections), int(count), path in self._recording.truncated
            )
            for path, frames, connections, count in zip(
                self._recording.files, self._frames, self._connections, found, strict=True
            )
        ]

    def _placed(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings with the file of their frame, and the number of its packet there."""
        positions, placed = np.frombuffer(self._positions, np.int64), []
        for finding in findings:
            file, inside = divmod(finding.evidence.position or 0, 1 << FILE_SHIFT)
            begin = file << FILE_SHIFT
            first, packet = np.searchsorted(positions, (begin, begin | inside)).tolist()
            evidence = msgspec.structs.replace(
                finding.evidence,
                source=Path(path_text(self._recording.files[file])).name,
                position=inside,
                packet=packet - first + 1,
            )
            placed.append(msgspec.structs.replace(finding, evidence=evidence))
        return placed
