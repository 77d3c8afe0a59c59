"""A bucket of connections: the state that one Spark key holds, and one step of it.

A Python state round trip costs about as much for one connection as for many, so connections share
a key. The stored bytes begin with a version; those of a version that is not known are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import zstandard

from decoders.frame.record import Kind
from expectations.conversation.observation import ConnectionWindow
from expectations.finding import Finding
from expectations.identity.claim import Claim, answered_claim
from expectations.judge import Judge, open_connection
from expectations.outcome import Offence, Outcome
from streaming.query.connections import Connections, StoredConnections
from streaming.query.earlier_state import EARLIER_VERSIONS, read_earlier

STATE_VERSION = 3
REPUBLISH_AFTER = 600_000
"""Milliseconds after which findings that have grown are published again."""
FORGET_AFTER = 24 * 3600 * 1_000_000_000
"""Nanoseconds of capture clock without a record after which a connection is forgotten."""
SERVER_LIMIT = 1_000
"""Servers of which a bucket remembers what it told; of another one's answers it tells again."""
UNKNOWN = "unknown"

Checks = dict[str, dict[str, int]]


class StateVersionError(ValueError):
    """The stored state was written by another version of kipwatch."""


@dataclass(slots=True)
class Bucket:
    """The connections of one bucket.

    `clock` is the latest capture time seen, in nanoseconds; `scheduled` tells whether the bucket's
    timer runs, which survives a restart as the state does. `answered` holds the API versions of which
    it was told that a server answers them, by cluster and server. `buckets` is how many there are of them,
    0 before that is known, and `resumed_at` when it went on after a loss, in milliseconds.
    """

    connections: Connections = field(default_factory=Connections)
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    buckets: int = 0
    resumed_at: int = 0


class _Stored(msgspec.Struct, array_like=True):
    """The layout of a bucket."""

    clock: int
    scheduled: bool
    republished_at: int
    answered: dict[str, set[tuple[int, int]]]
    connections: StoredConnections
    buckets: int = 0
    resumed_at: int = 0


class OpenConnections(msgspec.Struct, frozen=True, array_like=True):
    """How many connections a client software has open to a listener (KIP-511's gauge)."""

    software_name: str
    software_version: str
    listener: str
    count: int


class Report(msgspec.Struct):
    """What one step of a bucket tells the driver.

    `frames` counts by API name and kind, `undecodable` by reason, `checks` by rule and verdict.
    `captured` counts records, not of this bucket alone, by capture time in tenths of a second since 1970.
    `claims` are for the step that judges identities; they do not reach the driver.
    """

    bucket: int
    findings: list[Finding] = []
    checks: Checks = {}
    offences: list[tuple[Offence, int]] = []
    frames: dict[str, dict[str, int]] = {}
    undecodable: dict[str, int] = {}
    captured: dict[int, int] = {}
    open_connections: list[OpenConnections] = []
    state_bytes: int = 0
    claims: list[Claim] = []

    def add(self, outcome: Outcome) -> None:
        """Add what was judged."""
        self.findings.extend(outcome.findings)
        self.offences.extend(outcome.offences.items())
        for (rule, verdict), count in outcome.checks.items():
            _add(self.checks.setdefault(rule, {}), verdict, count)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Stored)
# Connections resemble each other: the fastest level leaves a quarter of their bytes.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_bucket(bucket: Bucket) -> bytes:
    """Lay a bucket out for the state store."""
    connections = bucket.connections.stored()
    stored = _Stored(
        bucket.clock,
        bucket.scheduled,
        bucket.republished_at,
        bucket.answered,
        connections,
        bucket.buckets,
        bucket.resumed_at,
    )
    return bytes([STATE_VERSION]) + _COMPRESSOR.compress(_ENCODER.encode(stored))


def unpack_bucket(stored: bytes | None) -> Bucket:
    """Read a bucket back; None is a bucket that was never stored. Raises StateVersionError."""
    if stored is None:
        return Bucket()
    version, content = stored[0], stored[1:]
    if version in EARLIER_VERSIONS:
        earlier = read_earlier(content)
        return Bucket(
            earlier.kept(), earlier.clock, earlier.scheduled, earlier.republished_at, earlier.answered
        )
    if version != STATE_VERSION:
        raise StateVersionError(
            f"the checkpoint holds state of version {version}, this kipwatch writes {STATE_VERSION}: "
            "run the kipwatch that wrote it, or start with a new checkpoint folder"
        )
    read = _DECODER.decode(_DECOMPRESSOR.decompress(content))
    return Bucket(
        Connections(read.connections),
        read.clock,
        read.scheduled,
        read.republished_at,
        read.answered,
        read.buckets,
        read.resumed_at,
    )


class BucketStep:
    """Steps buckets: judges windows, lets closed connections go, reports."""

    def __init__(self, judge: Judge, api_names: dict[int, str], resumed_at: int = 0) -> None:
        """`resumed_at`, in milliseconds, is when the query went on after a loss of frames; else 0."""
        self._judge = judge
        self._resumed_at = resumed_at
        self._api_names = api_names

    def hear(self, number: int, bucket: Bucket, windows: list[ConnectionWindow]) -> Report:
        """Judge windows of connections, in the order of each connection's first sequence."""
        report = Report(number)
        if bucket.resumed_at < self._resumed_at:
            self._resume(bucket, report)
        for window in sorted(windows, key=_order):
            self._hear_window(bucket, window, report)
        return self._summarise(bucket, report)

    def _resume(self, bucket: Bucket, report: Report) -> None:
        """Take all connections as interrupted where they stand: frames were lost that nobody counted."""
        bucket.resumed_at = self._resumed_at
        for state in bucket.connections.values():
            outcome = self._judge.lose(state)
            report.add(outcome)
            report.claims.extend(outcome.claims)

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what time asks for: tell what is open, publish what has grown, forget the silent.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            for state in bucket.connections.with_news():
                report.findings.extend(self._judge.republish(state))
                report.claims.extend(self._judge.latest_claims(state))
        bucket.connections.drop_silent(bucket.clock - FORGET_AFTER)
        return self._summarise(bucket, report)

    def _hear_window(self, bucket: Bucket, window: ConnectionWindow, report: Report) -> None:
        self._count_frames(window, report)
        heard = bucket.connections.heard(window.connection)
        if all(seen.last_sequence <= heard for seen in window.observations):
            return
        state = bucket.connections.get(window.connection)
        if state is None:
            state = bucket.connections[window.connection] = open_connection(window)
        outcome = self._judge.hear(state, window)
        report.add(outcome)
        report.claims.extend(outcome.claims)
        report.claims.extend(_newly_answered(bucket, window, outcome))
        bucket.clock = max(bucket.clock, state.conversation.latest_captured_at)
        if state.conversation.closed:
            del bucket.connections[window.connection]

    def _count_frames(self, window: ConnectionWindow, report: Report) -> None:
        for seen in window.observations:
            if seen.kind in (Kind.REQUEST, Kind.RESPONSE):
                api = self._api_names.get(seen.api_key, UNKNOWN)
                _add(report.frames.setdefault(api, {}), seen.kind.name.lower(), seen.count)
            if seen.failure is not None:
                _add(report.undecodable, seen.failure.reason, seen.count)
            elif not seen.known:
                _add(report.undecodable, "unknown-api", seen.count)

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts: dict[tuple[str, str, str], int] = {}
        for (software, server), count in bucket.connections.by_software().items():
            said = (software.name, software.version) if software else (UNKNOWN, UNKNOWN)
            key = (*said, self._judge.listener(server))
            counts[key] = counts.get(key, 0) + count
        report.open_connections = [OpenConnections(*key, count) for key, count in sorted(counts.items())]
        return report


def _order(window: ConnectionWindow) -> tuple[bytes, int]:
    first = window.observations[0].first_sequence if window.observations else 0
    return window.connection, first


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _newly_answered(bucket: Bucket, window: ConnectionWindow, outcome: Outcome) -> Iterator[Claim]:
    """Tell once, not with each connection, that a server answers an API version."""
    answered = bucket.answered.setdefault(f"{window.cluster}\0{window.server}", set())
    for api_key, api_version in sorted(outcome.answered - answered):
        yield answered_claim(window.cluster, window.server, api_key, api_version)
    answered |= outcome.answered
    if len(bucket.answered) > SERVER_LIMIT:
        del bucket.answered[next(iter(bucket.answered))]
