"""The archive's tables: their columns, and how the reports of a batch become rows.

docs/archive.md says what each column means. VERSION counts up when a column changes its meaning or
is removed.

Four tables count: usage, errors, findings, coverage. Three record changes, each row with all that is known of
its subject then: connections, members of groups, and what brokers advertise. When a step of a bucket has
more changes than it may describe, one row marked `folded` counts the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from decoders.frame.record import Closing
from expectations.conversation.bodies import NO_NODE, AdvertisedRanges, Features
from expectations.conversation.texts import identifier_text
from expectations.judging.finding import Finding
from expectations.report.coverage import by_verdict
from streaming.judging.changes import BrokerShown, ConnectionChange, MemberChange, Showings, ranges_id
from streaming.judging.report import Report, checks_of
from streaming.judging.usage import UNCERTAIN, Usage, Use

VERSION: Final = 1
"""The version of the tables, in the metadata of each file under VERSION_KEY."""
VERSION_KEY: Final = b"kipwatch.archive"
INSTANT: Final = pa.timestamp("us", tz="UTC")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN: Final = "unknown"
_TEXT, _FLAG, _SHORT, _INT, _LONG = pa.string(), pa.bool_(), pa.int16(), pa.int32(), pa.int64()


def _columns(kind: pa.DataType, *names: str) -> list[tuple[str, pa.DataType]]:
    """Return columns of one type."""
    return [(name, kind) for name in names]


_WHO: Final = (
    ("minute", INSTANT),
    *_columns(_TEXT, "cluster", "listener"),
    *_columns(_TEXT, "client_software_name", "client_software_version", "client_id"),
    ("folded", _FLAG),
    ("api", _TEXT),
    *_columns(_SHORT, "api_key", "api_version"),
)
_TIMES: Final = ("captured_at", "first_captured_at", "last_captured_at")
_FINDING_COLUMNS: Final = (
    *_columns(INSTANT, *_TIMES),
    *_columns(_TEXT, "id", "rule", "kip", "section", "level", "role", "spec", "message"),
    *_columns(_TEXT, "expected", "observed", "cluster", "connection", "client", "broker", "listener"),
    *_columns(_TEXT, "client_id", "client_software_name", "client_software_version"),
    *_columns(_TEXT, "client_instance_id", "member_id", "group_id", "api"),
    *_columns(_INT, "api_key", "api_version"),
    *_columns(_LONG, "correlation_id", "sequence", "occurrences"),
    ("suppressed", _FLAG),
    *_columns(_TEXT, "context", "evidence", "runbook", "owner", "principal", "workload", "node"),
)
_RANGES: Final = pa.list_(
    pa.struct([("api", _TEXT), ("api_key", _SHORT), ("lowest", _SHORT), ("highest", _SHORT)])
)
_FEATURES: Final = pa.list_(pa.struct([("name", _TEXT), ("lowest", _SHORT), ("highest", _SHORT)]))
_WHERE: Final = (
    ("changed_at", INSTANT),
    *_columns(_TEXT, "cluster", "listener", "connection"),
    *_columns(_TEXT, "client_software_name", "client_software_version", "client_id"),
)
_COUNTED: Final = (("changes", _LONG), ("folded", _FLAG))
_CONNECTIONS, _MEMBERS, _BROKERS = range(3)
"""The places of the kinds in `Changes.further`."""

Row = dict[str, Any]


class ArchivedBatch(NamedTuple):
    """The source of a batch's rows. `findings` can be read only once: they are not all in memory.

    `at` is the time of the latest capture in nanoseconds, or the clock's if the batch has no capture.
    """

    reports: Sequence[Report]
    findings: Iterable[Finding]
    api_names: Mapping[int, str]
    at: int


class ArchiveTable(NamedTuple):
    """A table: its schema, the column that decides the day of a row, and the rows of a batch."""

    name: str
    schema: pa.Schema
    time: str
    rows: Callable[[ArchivedBatch], Iterator[Row]]


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    """Return the schema of columns, with the version of the tables in its metadata."""
    return pa.schema(columns, metadata={VERSION_KEY: str(VERSION).encode()})


def instant(nanoseconds: int) -> datetime:
    """Return the time of nanoseconds since the epoch, cut to microseconds."""
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


@dataclass(slots=True)
class _Sums:
    """The sums of a row of usage."""

    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    connections: int = 0


def _who(use: Use, names: Mapping[int, str]) -> Row:
    return {
        "minute": EPOCH + timedelta(minutes=use.minute),
        "cluster": use.cluster,
        "listener": use.listener,
        "client_software_name": use.software_name,
        "client_software_version": use.software_version,
        "client_id": use.client_id,
        "folded": use.folded,
        "api": names.get(use.api_key, UNKNOWN),
        "api_key": use.api_key,
        "api_version": use.api_version,
    }


def _usage(batch: ArchivedBatch) -> Iterator[Row]:
    uses: defaultdict[Use, defaultdict[int, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    for report in batch.reports:
        for usage in report.usage:
            # Look it up once: hashing a use is slow, and each bucket of a batch reports it.
            sums = uses[usage.use]
            for version, count in usage.requests.items():
                found = sums[version]
                found.requests += count
                found.request_bytes += usage.request_bytes.get(version, 0)
                found.connections += usage.connections.get(version, 0)
            if usage.response_bytes:
                sums[_only_version(usage)].response_bytes += usage.response_bytes
    for use, sums in uses.items():
        for version, found in sums.items():
            known = None if version == UNCERTAIN else version
            yield {**_who(use, batch.api_names), "header_version": known, **asdict(found)}


def _only_version(usage: Usage) -> int:
    """Return the header version of the requests that responses belong to; UNCERTAIN if there are several."""
    return next(iter(usage.requests)) if len(usage.requests) == 1 else UNCERTAIN


def _errors(batch: ArchivedBatch) -> Iterator[Row]:
    responses: Counter[tuple[Use, int]] = Counter()
    for report in batch.reports:
        for usage in report.usage:
            for code, count in usage.errors.items():
                responses[usage.use, code] += count
    for (use, code), count in responses.items():
        yield {**_who(use, batch.api_names), "error_code": code, "responses": count}


def _findings(batch: ArchivedBatch) -> Iterator[Row]:
    return map(_finding, batch.findings)


def _finding(finding: Finding) -> Row:
    values = {name: getattr(finding, name) for name, _ in _FINDING_COLUMNS}
    values.update({name: instant(values[name]) for name in _TIMES})
    values["suppressed"] = bool(finding.suppressed)
    values.update({name: values[name] or None for name in ("owner", "principal", "workload", "node")})
    for name in ("context", "evidence"):
        values[name] = msgspec.json.encode(values[name]).decode()
    return values


def _coverage(batch: ArchivedBatch) -> Iterator[Row]:
    for rule, rulings in checks_of(batch.reports).items():
        for verdict, count in by_verdict(rulings).items():
            yield {"captured_at": instant(batch.at), "rule": rule, "verdict": verdict, "checks": count}


def _connections(batch: ArchivedBatch) -> Iterator[Row]:
    for report in batch.reports:
        yield from map(_connection, report.changes.connections)
    yield from _further(batch, _CONNECTIONS, "changed_at")


def _connection(change: ConnectionChange) -> Row:
    is_open = change.closing is Closing.NONE
    claim, instance_id = change.software, change.instance_id
    node_id = claim.node_id if claim else NO_NODE
    return {
        **_where(change),
        "client": change.client,
        "broker": change.server,
        "opened_at": None if change.joined else _instant(change.opened_at),
        "joined": change.joined,
        "client_instance_id": None if instance_id is None else identifier_text(instance_id),
        "uses_header_v3": change.uses_header_v3,
        "ranges_id": change.ranges,
        "versions_asked_at": _instant(change.asked_at),
        "first_used_at": _instant(change.used_at),
        "rebootstrap_at": _instant(change.rebootstrap_at),
        "wanted_cluster_id": claim.cluster_id if claim else None,
        "wanted_node_id": None if node_id == NO_NODE else node_id,
        "closed_at": None if is_open else instant(change.at),
        "closing": None if is_open else change.closing.name.lower(),
        "closed_by_broker": None if is_open else change.closed_by_broker,
    }


def _groups(batch: ArchivedBatch) -> Iterator[Row]:
    for report in batch.reports:
        yield from map(_member, report.changes.members)
    yield from _further(batch, _MEMBERS, "changed_at")


def _member(change: MemberChange) -> Row:
    return {
        **_where(change),
        "group_id": change.group_id,
        "protocol": change.protocol,
        "member_id": change.member_id,
        "api_version": change.api_version,
        "epoch": change.epoch,
        "error_code": change.error_code,
        "joined": change.has_joined,
        "left": change.has_left,
        "ghost": change.ghost,
    }


def _brokers(batch: ArchivedBatch) -> Iterator[Row]:
    found: dict[BrokerShown, Showings] = {}
    for report in batch.reports:
        for shown, showings in report.changes.brokers:
            found.setdefault(shown, Showings(0, showings.first, showings.last)).add(showings)
    for shown, showings in found.items():
        yield _broker(shown, showings, batch)
    yield from _further(batch, _BROKERS, "last_seen")


def _broker(shown: BrokerShown, showings: Showings, batch: ArchivedBatch) -> Row:
    return {
        "first_seen": instant(showings.first),
        "last_seen": instant(showings.last),
        "cluster": shown.cluster,
        "listener": shown.listener,
        "broker": shown.server,
        "cluster_id": shown.cluster_id,
        "node_id": None if shown.node_id == NO_NODE else shown.node_id,
        "api_versions_version": shown.body_version,
        "ranges_id": None if shown.ranges is None else ranges_id(shown.ranges),
        "ranges": _ranges(shown.ranges, batch),
        "supported_features": _features(shown.supported_features),
        "finalized_features": _features(shown.finalized_features),
        "changes": showings.count,
        "folded": False,
    }


def _where(change: ConnectionChange | MemberChange) -> Row:
    claim = change.software
    return {
        "changed_at": instant(change.at),
        "cluster": change.cluster,
        "listener": change.listener,
        "connection": change.connection.hex(),
        "client_software_name": claim.name if claim else None,
        "client_software_version": claim.version if claim else None,
        "client_id": change.client_id,
        "changes": 1,
        "folded": False,
    }


def _instant(nanoseconds: int) -> datetime | None:
    """Return a time; None for 0, which means never."""
    return instant(nanoseconds) if nanoseconds else None


def _ranges(ranges: AdvertisedRanges | None, batch: ArchivedBatch) -> Sequence[Any] | None:
    if ranges is None:
        return None
    return [
        {"api": batch.api_names.get(key), "api_key": key, "lowest": lowest, "highest": highest}
        for key, lowest, highest in ranges
    ]


def _features(features: Features | None) -> Sequence[Any] | None:
    if features is None:
        return None
    return [{"name": name, "lowest": lowest, "highest": highest} for name, lowest, highest in features]


def _further(batch: ArchivedBatch, kind: int, time: str) -> Iterator[Row]:
    """Yield a row that counts the changes beyond those that a bucket may describe, if there are any."""
    count = sum(report.changes.further[kind] for report in batch.reports)
    if count:
        yield {time: instant(batch.at), "changes": count, "folded": True}


TABLES: Final = (
    ArchiveTable(
        "usage",
        _schema(
            *_WHO,
            ("header_version", _SHORT),
            *_columns(_LONG, "requests", "request_bytes", "response_bytes", "connections"),
        ),
        "minute",
        _usage,
    ),
    ArchiveTable("errors", _schema(*_WHO, ("error_code", _SHORT), ("responses", _LONG)), "minute", _errors),
    ArchiveTable("findings", _schema(*_FINDING_COLUMNS), "last_captured_at", _findings),
    ArchiveTable(
        "coverage",
        _schema(("captured_at", INSTANT), *_columns(_TEXT, "rule", "verdict"), ("checks", _LONG)),
        "captured_at",
        _coverage,
    ),
    ArchiveTable(
        "connections",
        _schema(
            *_WHERE,
            *_columns(_TEXT, "client", "broker"),
            ("opened_at", INSTANT),
            ("joined", _FLAG),
            ("client_instance_id", _TEXT),
            ("uses_header_v3", _FLAG),
            ("ranges_id", _TEXT),
            *_columns(INSTANT, "versions_asked_at", "first_used_at", "rebootstrap_at"),
            ("wanted_cluster_id", _TEXT),
            ("wanted_node_id", _INT),
            ("closed_at", INSTANT),
            ("closing", _TEXT),
            ("closed_by_broker", _FLAG),
            *_COUNTED,
        ),
        "changed_at",
        _connections,
    ),
    ArchiveTable(
        "groups",
        _schema(
            *_WHERE,
            *_columns(_TEXT, "group_id", "protocol", "member_id"),
            ("api_version", _SHORT),
            ("epoch", _INT),
            ("error_code", _SHORT),
            *_columns(_FLAG, "joined", "left", "ghost"),
            *_COUNTED,
        ),
        "changed_at",
        _groups,
    ),
    ArchiveTable(
        "brokers",
        _schema(
            *_columns(INSTANT, "first_seen", "last_seen"),
            *_columns(_TEXT, "cluster", "listener", "broker", "cluster_id"),
            ("node_id", _INT),
            ("api_versions_version", _SHORT),
            ("ranges_id", _TEXT),
            ("ranges", _RANGES),
            *_columns(_FEATURES, "supported_features", "finalized_features"),
            *_COUNTED,
        ),
        "last_seen",
        _brokers,
    ),
)
