"""Changes: what is told of connections, members and brokers, once, however windows are cut, and bounded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from decoders.frame.record import Closing, Direction, Record
from decoders.schema.registry import default_schemas
from expectations.judging.judge import Judge
from streaming.judging.changes import (
    LIMIT,
    Changes,
    ConnectionChange,
    MemberChange,
    ranges_id,
)
from streaming.judging.report import Report
from streaming.judging.step import BucketStep
from streaming.state.bucket import Bucket
from tests.exchange import ADVERTISED, ID_A, Exchange, advertisement
from tests.streaming.judging.travelling import observed, travelled, windows

NAMES, APIS = default_schemas().api_names, default_schemas().by_key
MEMBER = "aW5zdGFuY2UtbnVtYmVyMQ"
FEATURES = {
    "supportedFeatures": [{"name": "group.version", "minVersion": 0, "maxVersion": 1}],
    "finalizedFeatures": [{"name": "group.version", "minVersionLevel": 1, "maxVersionLevel": 1}],
}


def changes(*steps: list[Record]) -> list[Changes]:
    """Judge records step by step and return the changes of each step."""
    step, bucket = BucketStep(Judge(NAMES), APIS, counts_usage=True), Bucket()
    found = []
    for records in steps:
        report = step.process(0, bucket, travelled(observed(records)))
        found.append(msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=Report).changes)
    return found


def one_by_one(exchange: Exchange) -> list[Changes]:
    return changes(*([record] for record in exchange.records))


def heartbeat(exchange: Exchange, epoch: int, member: str = MEMBER, error: int = 0) -> None:
    joins = {"subscribedTopicNames": ["t"], "topicPartitions": [], "rebalanceTimeoutMs": 1_000}
    body: dict[str, Any] = {"groupId": "orders", "memberId": member, "memberEpoch": epoch}
    request = exchange.request("ConsumerGroupHeartbeat", 1, body | (joins if epoch == 0 else {}))
    given = {"errorCode": error, "memberId": member, "memberEpoch": epoch, "heartbeatIntervalMs": 3_000}
    exchange.respond(request, given)


def connections(found: list[Changes]) -> list[ConnectionChange]:
    return [change for each in found for change in each.connections]


def members(found: list[Changes]) -> list[MemberChange]:
    return [change for each in found for change in each.members]


def test_a_connection_changes_when_something_of_it_does_and_not_with_each_frame() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(3):
        exchange.request("Metadata", 12, client_id="app")
    exchange.request("Metadata", 14, instance_id=ID_A)
    exchange.close(first=Direction.TO_CLIENT)
    opened, asked, told, used, identified, closed = connections(one_by_one(exchange))
    assert (opened.software, opened.client_id, opened.closing) == (None, None, Closing.NONE)
    assert opened.opened_at == opened.at == exchange.records[0].captured_at
    assert asked.software is not None
    assert (asked.software.name, asked.client_id, asked.ranges) == ("tester", "app", None)
    assert told.ranges == ranges_id((key, *versions) for key, versions in ADVERTISED.items())
    assert (asked.asked_at, told.used_at, used.used_at) == (asked.at, 0, used.at)
    assert (told.uses_header_v3, identified.uses_header_v3, identified.instance_id) == (False, True, ID_A)
    assert (closed.closing, closed.closed_by_broker) == (Closing.FIN, True)
    assert closed == msgspec.structs.replace(
        identified, at=exchange.records[-1].captured_at, closing=Closing.FIN, closed_by_broker=True
    )


def test_one_window_makes_one_change_of_a_connection() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.close()
    (change,) = connections(changes(exchange.records))
    assert change == connections(one_by_one(exchange))[-1]


def test_a_connection_that_was_joined_says_so() -> None:
    (change,) = connections(changes(Exchange(mid_stream=True).records))
    assert change.joined


def test_records_that_come_again_change_nothing() -> None:
    exchange = Exchange()
    exchange.negotiate()
    heartbeat(exchange, 0)
    first, again = changes(exchange.records, exchange.records)
    assert first.connections and first.members and first.brokers
    assert again == Changes()


@pytest.mark.parametrize("stepwise", [False, True])
def test_a_member_joins_moves_on_and_leaves(*, stepwise: bool) -> None:
    exchange = Exchange()
    for epoch in (0, 1, 1, 1, 4, -1):
        heartbeat(exchange, epoch)
    exchange.close()
    found = members(one_by_one(exchange) if stepwise else changes(exchange.records))
    if stepwise:
        assert [change.epoch for change in found] == [0, 1, 4, -1]
        assert [change.has_joined for change in found] == [True, False, False, False]
    else:
        assert [(change.epoch, change.has_joined) for change in found] == [(-1, True)]
    latest = found[-1]
    assert (latest.protocol, latest.group_id, latest.member_id) == ("consumer", "orders", MEMBER)
    assert (latest.api_version, latest.has_left, latest.ghost) == (1, True, False)
    assert not any(change.ghost for change in found)


def test_a_member_whose_connection_ends_without_its_leaving_is_a_ghost() -> None:
    exchange = Exchange()
    heartbeat(exchange, 0)
    heartbeat(exchange, 1)
    exchange.close()
    *_, latest = members(one_by_one(exchange))
    assert (latest.ghost, latest.has_left, latest.api_version) == (True, False, 1)


@pytest.mark.parametrize("closing", [Closing.IDLE, Closing.EVICTED])
def test_a_member_whose_connection_is_no_longer_followed_is_no_ghost(closing: Closing) -> None:
    exchange = Exchange()
    heartbeat(exchange, 1)
    exchange.close(closing)
    assert not any(change.ghost for change in members(one_by_one(exchange)))


def test_a_member_that_the_coordinator_refused_is_no_ghost() -> None:
    exchange = Exchange()
    heartbeat(exchange, 3, error=110)
    exchange.close()
    found = members(one_by_one(exchange))
    assert found[-1].error_code == 110
    assert not any(change.ghost for change in found)


def test_members_of_classic_groups_join_and_leave_without_a_member_id() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for member_id in ("", "app-1"):
        exchange.request("JoinGroup", 9, {"groupId": "old", "memberId": member_id}, client_id="app")
    exchange.request("LeaveGroup", 5, {"groupId": "old", "members": [{"memberId": "app-1"}]}, client_id="app")
    joined, left = members(changes(exchange.records))
    assert (joined.protocol, joined.group_id, joined.client_id) == ("classic", "old", "app")
    assert (joined.has_joined, joined.has_left, joined.api_version) == (True, False, 9)
    assert (left.has_joined, left.has_left, left.member_id) == (False, True, None)


def test_classic_groups_are_told_where_the_judgement_is_cached() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(20):
        exchange.request("JoinGroup", 9, {"groupId": "old", "memberId": "app-1"}, client_id="app")
    assert len(members(one_by_one(exchange))) == 20


def test_a_broker_shows_its_ranges_features_and_ids() -> None:
    exchange = Exchange()
    asked = exchange.request("ApiVersions", 4, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})
    exchange.respond(asked, advertisement() | FEATURES)
    metadata = exchange.request("Metadata", 12)
    here = {"nodeId": 7, "host": "10.0.0.2", "port": 9092}
    exchange.respond(metadata, {"clusterId": "MkU3OEVBNTcwNTJENDM2Qk", "brokers": [here]})
    again = exchange.request("Metadata", 12)
    exchange.respond(again, {"clusterId": "MkU3OEVBNTcwNTJENDM2Qk", "brokers": [here]})
    (told, showings), (described, _) = [shown for each in one_by_one(exchange) for shown in each.brokers]
    assert told.ranges == tuple(sorted((key, *versions) for key, versions in ADVERTISED.items()))
    assert told.supported_features == (("group.version", 0, 1),)
    assert told.finalized_features == (("group.version", 1, 1),)
    assert (told.body_version, told.cluster_id, told.node_id) == (4, None, -1)
    assert (showings.count, showings.first) == (1, exchange.records[2].captured_at)
    assert (described.cluster_id, described.node_id, described.ranges) == ("MkU3OEVBNTcwNTJENDM2Qk", 7, None)


def test_connections_that_are_told_the_same_are_one_showing() -> None:
    exchanges = [Exchange(connection=bytes([number]) * 16) for number in range(3)]
    for exchange in exchanges:
        exchange.negotiate()
    (found,) = changes([record for exchange in exchanges for record in exchange.records])
    ((_, showings),) = found.brokers
    assert showings.count == 3


def test_a_refusal_shows_no_ranges() -> None:
    exchange = Exchange()
    asked = exchange.request("ApiVersions", 4, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})
    exchange.respond(asked, advertisement(35), version=0)
    assert not any(each.brokers for each in one_by_one(exchange))


def test_changes_beyond_the_limit_are_counted() -> None:
    exchanges = [Exchange(connection=number.to_bytes(16)) for number in range(1, LIMIT + 8)]
    (found,) = changes([record for exchange in exchanges for record in exchange.records])
    assert len(found.connections) == LIMIT
    assert found.further == (7, 0, 0)


def test_nothing_is_told_where_nothing_is_archived() -> None:
    exchange = Exchange()
    exchange.negotiate()
    report = BucketStep(Judge(NAMES), APIS).process(0, Bucket(), travelled(windows(exchange)))
    assert report.changes == Changes()
