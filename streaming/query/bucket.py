"""A bucket of connections: the state that one Spark key holds, and one step of it.

A Python state round trip costs about as much for one connection as for many, so connections share
a key. The stored bytes begin with a version; bytes of another version are refused, never guessed at.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.observation import ConnectionWindow
from expectations.finding import Finding
from expectations.judge import ConnectionState, Judge, Offence, open_connection

STATE_VERSION = 1
REPUBLISH_AFTER = 600_000
"""Milliseconds after which findings that have grown are published again."""
FORGET_AFTER = 24 * 3600 * 1_000_000_000
"""Nanoseconds of capture clock without a record after which a connection is forgotten."""
UNKNOWN = "unknown"

Checks = dict[str, dict[str, int]]


class StateVersionError(ValueError):
    """The stored state was written by another version of kipwatch."""


class Bucket(msgspec.Struct):
    """The connections of one bucket.

    `clock` is the latest capture time seen, in nanoseconds; `scheduled` tells whether the bucket's
    timer runs, which survives a restart as the state does.
    """

    connections: dict[bytes, ConnectionState] = {}
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0


class OpenConnections(msgspec.Struct, frozen=True, array_like=True):
    """How many connections a client software has open to a listener (KIP-511's gauge)."""

    software_name: str
    software_version: str
    listener: str
    count: int


class Report(msgspec.Struct):
    """What one step of a bucket tells the driver.

    `frames` counts by API name and kind, `undecodable` by reason, `checks` by rule and verdict.
    `captured` counts the window's records by capture time, in tenths of a second since the epoch.
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


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Bucket)


def pack_bucket(bucket: Bucket) -> bytes:
    """Lay a bucket out for the state store."""
    return bytes([STATE_VERSION]) + _ENCODER.encode(bucket)


def unpack_bucket(stored: bytes | None) -> Bucket:
    """Read a bucket back; None is a bucket that was never stored. Raises StateVersionError."""
    if stored is None:
        return Bucket()
    if stored[:1] != bytes([STATE_VERSION]):
        raise StateVersionError(
            f"the checkpoint holds state of version {stored[0]}, this kipwatch writes {STATE_VERSION}: "
            "start with a new checkpoint folder"
        )
    return _DECODER.decode(stored[1:])


class BucketStep:
    """Steps buckets: judges windows, lets closed connections go, reports."""

    def __init__(self, judge: Judge, api_names: dict[int, str]) -> None:
        self._judge = judge
        self._api_names = api_names

    def hear(self, number: int, bucket: Bucket, windows: list[ConnectionWindow]) -> Report:
        """Judge windows of connections, in the order of each connection's first sequence."""
        report = Report(number)
        for window in sorted(windows, key=_order):
            self._hear_window(bucket, window, report)
        return self._summarise(bucket, report)

    def tick(self, number: int, bucket: Bucket, now: int) -> Report:
        """Do what time asks for: tell what is open, publish what has grown, forget the silent.

        `now` is the processing time in milliseconds.
        """
        report = Report(number)
        if now - bucket.republished_at >= REPUBLISH_AFTER:
            bucket.republished_at = now
            for state in bucket.connections.values():
                report.findings.extend(self._judge.republish(state))
        _forget_silent(bucket)
        return self._summarise(bucket, report)

    def _hear_window(self, bucket: Bucket, window: ConnectionWindow, report: Report) -> None:
        state = bucket.connections.get(window.connection)
        if state is None:
            state = bucket.connections.setdefault(window.connection, open_connection(window))
        outcome = self._judge.hear(state, window)
        report.findings.extend(outcome.findings)
        report.offences.extend(outcome.offences.items())
        for (rule, verdict), count in outcome.checks.items():
            _add(report.checks.setdefault(rule, {}), verdict, count)
        self._count_frames(window, report)
        bucket.clock = max(bucket.clock, state.conversation.latest_captured_at)
        if state.conversation.closed:
            del bucket.connections[window.connection]

    def _count_frames(self, window: ConnectionWindow, report: Report) -> None:
        for seen in window.observations:
            tenth = seen.last_captured_at // 100_000_000
            report.captured[tenth] = report.captured.get(tenth, 0) + seen.count
            if seen.kind in (Kind.REQUEST, Kind.RESPONSE):
                api = self._api_names.get(seen.api_key, UNKNOWN)
                _add(report.frames.setdefault(api, {}), seen.kind.name.lower(), seen.count)
            if seen.failure is not None:
                _add(report.undecodable, seen.failure.reason, seen.count)
            elif not seen.known:
                _add(report.undecodable, "unknown-api", seen.count)

    def _summarise(self, bucket: Bucket, report: Report) -> Report:
        counts: dict[tuple[str, str, str], int] = {}
        for state in bucket.connections.values():
            conversation = state.conversation
            software = conversation.software
            key = (
                software.name if software else UNKNOWN,
                software.version if software else UNKNOWN,
                self._judge.listener(conversation.server),
            )
            counts[key] = counts.get(key, 0) + 1
        report.open_connections = [OpenConnections(*key, count) for key, count in sorted(counts.items())]
        return report


def _order(window: ConnectionWindow) -> tuple[bytes, int]:
    first = window.observations[0].first_sequence if window.observations else 0
    return window.connection, first


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def _forget_silent(bucket: Bucket) -> None:
    silent = [
        connection
        for connection, state in bucket.connections.items()
        if bucket.clock - state.conversation.latest_captured_at > FORGET_AFTER
    ]
    for connection in silent:
        del bucket.connections[connection]
