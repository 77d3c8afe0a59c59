"""The tables of what changes: connections, members of groups, and what brokers show of themselves.

A row holds all that is known of its subject then. Where a step of a bucket has more changes than it may
describe, one row marked `folded` counts the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from decoders.frame.record import Closing
from expectations.conversation.bodies import NO_NODE, AdvertisedRanges, Features, SoftwareClaim
from expectations.conversation.identifier import identifier_text
from streaming.archive.table import INSTANT, Batch, Table, Values, instant, schema_of
from streaming.judging.changes import BrokerShown, ConnectionChange, MemberChange, Showings, ranges_id

_RANGES: Final = pa.list_(
    pa.struct(
        [("api", pa.string()), ("api_key", pa.int16()), ("lowest", pa.int16()), ("highest", pa.int16())]
    )
)
_FEATURES: Final = pa.list_(
    pa.struct([("name", pa.string()), ("lowest", pa.int16()), ("highest", pa.int16())])
)
_WHERE: Final = (
    ("changed_at", INSTANT),
    ("cluster", pa.string()),
    ("listener", pa.string()),
    ("connection", pa.string()),
    ("client_software_name", pa.string()),
    ("client_software_version", pa.string()),
    ("client_id", pa.string()),
)
_COUNTED: Final = (("changes", pa.int64()), ("folded", pa.bool_()))
_CONNECTIONS, _MEMBERS, _BROKERS = range(3)
"""The places of the kinds in `Changes.further`."""


def _connections(batch: Batch) -> Iterator[Values]:
    for report in batch.reports:
        yield from map(_connection, report.changes.connections)
    yield from _further(batch, _CONNECTIONS, "changed_at")


def _connection(change: ConnectionChange) -> Values:
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


def _groups(batch: Batch) -> Iterator[Values]:
    for report in batch.reports:
        yield from map(_member, report.changes.members)
    yield from _further(batch, _MEMBERS, "changed_at")


def _member(change: MemberChange) -> Values:
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


def _brokers(batch: Batch) -> Iterator[Values]:
    found: dict[BrokerShown, Showings] = {}
    for report in batch.reports:
        for shown, showings in report.changes.brokers:
            found.setdefault(shown, Showings(0, showings.first, showings.last)).add(showings)
    for shown, showings in found.items():
        yield _broker(shown, showings, batch)
    yield from _further(batch, _BROKERS, "last_seen")


def _broker(shown: BrokerShown, showings: Showings, batch: Batch) -> Values:
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


def _where(change: ConnectionChange | MemberChange) -> Values:
    return {
        "changed_at": instant(change.at),
        "cluster": change.cluster,
        "listener": change.listener,
        "connection": change.connection.hex(),
        **_software(change.software),
        "client_id": change.client_id,
        "changes": 1,
        "folded": False,
    }


def _instant(nanoseconds: int) -> datetime | None:
    """Return a time, None for 0: it did not happen."""
    return instant(nanoseconds) if nanoseconds else None


def _software(claim: SoftwareClaim | None) -> Values:
    name, version = (claim.name, claim.version) if claim else (None, None)
    return {"client_software_name": name, "client_software_version": version}


def _ranges(ranges: AdvertisedRanges | None, batch: Batch) -> Sequence[Any] | None:
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


def _further(batch: Batch, kind: int, time: str) -> Iterator[Values]:
    """Yield the row that counts the changes which are not described, if there are any."""
    count = sum(report.changes.further[kind] for report in batch.reports)
    if count:
        yield {time: instant(batch.at), "changes": count, "folded": True}


CHANGE_TABLES: Final = (
    Table(
        "connections",
        schema_of(
            *_WHERE,
            ("client", pa.string()),
            ("broker", pa.string()),
            ("opened_at", INSTANT),
            ("joined", pa.bool_()),
            ("client_instance_id", pa.string()),
            ("uses_header_v3", pa.bool_()),
            ("ranges_id", pa.string()),
            ("versions_asked_at", INSTANT),
            ("first_used_at", INSTANT),
            ("rebootstrap_at", INSTANT),
            ("wanted_cluster_id", pa.string()),
            ("wanted_node_id", pa.int32()),
            ("closed_at", INSTANT),
            ("closing", pa.string()),
            ("closed_by_broker", pa.bool_()),
            *_COUNTED,
        ),
        "changed_at",
        _connections,
    ),
    Table(
        "groups",
        schema_of(
            *_WHERE,
            ("group_id", pa.string()),
            ("protocol", pa.string()),
            ("member_id", pa.string()),
            ("api_version", pa.int16()),
            ("epoch", pa.int32()),
            ("error_code", pa.int16()),
            ("joined", pa.bool_()),
            ("left", pa.bool_()),
            ("ghost", pa.bool_()),
            *_COUNTED,
        ),
        "changed_at",
        _groups,
    ),
    Table(
        "brokers",
        schema_of(
            ("first_seen", INSTANT),
            ("last_seen", INSTANT),
            ("cluster", pa.string()),
            ("listener", pa.string()),
            ("broker", pa.string()),
            ("cluster_id", pa.string()),
            ("node_id", pa.int32()),
            ("api_versions_version", pa.int16()),
            ("ranges_id", pa.string()),
            ("ranges", _RANGES),
            ("supported_features", _FEATURES),
            ("finalized_features", _FEATURES),
            *_COUNTED,
        ),
        "last_seen",
        _brokers,
    ),
)
