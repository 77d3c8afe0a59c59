"""The connections of the state bench differ, break no rule, and are small."""

from __future__ import annotations

import itertools

from decoders.frame.record import Kind
from decoders.schema.registry import default_schemas
from expectations.judging.judge import Judge
from streaming.bench.state import IDLE_RUN, Crowded, bytes_per_connection, distinct
from streaming.bench.traffic import FRAMES_IN_ROUND, Traffic, captured_now, connection_id
from streaming.judging.step import BucketStep
from streaming.state.bucket import Bucket
from tests.exchange import Exchange
from tests.expectations.conversation.scalar_windows import in_topic, windows_of
from tests.streaming.judging.travelling import bucket_of, travelled, windows
from tests.streaming.query.test_stages import Store, step
from tests.streaming.state.bucket_store import states_of


def test_a_connection_takes_at_most_three_hundred_bytes() -> None:
    assert bytes_per_connection() <= 300


def test_a_bucket_holds_its_share_of_idle_connections_from_its_first_step_on() -> None:
    store, exchange = Store(), Exchange()
    exchange.negotiate(client_id="app")
    for begin in (0, len(exchange.records)):
        report = step(Crowded(buckets=2, idle=40), store, windows(exchange, begin), number=1)
        idle = {connection_id(IDLE_RUN, number) for number in range(40)}
        share = sum(bucket_of(connection, 2) == 1 for connection in idle)
        assert 0 < share < 40
        assert sum(row.count for row in report.open_connections) == share + 1
        exchange.request("Metadata", 12, client_id="app")


def test_connections_differ() -> None:
    one, other = (distinct(connection_id(1, number), number).conversation for number in (1, 2))
    assert one.client_id != other.client_id
    assert one.client != other.client
    assert one.opened_at != other.opened_at
    assert one.advertised == other.advertised


def test_the_traffic_is_complete_and_conforms() -> None:
    schemas, bucket = default_schemas(), Bucket()
    traffic = Traffic(schemas, 5)
    published = itertools.chain(traffic.opening(), *(traffic.round(number) for number in range(3)))
    records = [record for batch in published for record in batch.records()]
    assert len(records) == 5 * (7 + 3 * FRAMES_IN_ROUND)
    placed = [(record, in_topic("frames", (0, 0, 0), record)) for record in records]
    report = BucketStep(Judge(schemas.api_names), schemas.by_key).process(
        0, bucket, travelled(windows_of(default_schemas(), placed))
    )
    assert report.findings == [] and report.undecodable == {}
    assert len(bucket.connections) == 5
    assert report.frames["ConsumerGroupHeartbeat"]["request"] == 2 * 5 + 3
    members = {name for state in states_of(bucket.connections).values() for name in state.identities.members}
    assert len(members) == 5


def test_traffic_can_have_the_present_capture_time() -> None:
    traffic = Traffic(default_schemas(), 1)
    before = [record for batch in traffic.round(0) for record in batch.records()]
    after = [record for batch in captured_now(traffic.round(0)) for record in batch.records()]
    assert [record.frame for record in after] == [record.frame for record in before]
    assert all(record.captured_at != old.captured_at for record, old in zip(after, before, strict=True))
    responses = [record for record in after if record.kind is Kind.RESPONSE]
    assert all(record.paired_sequence == record.sequence - 1 for record in responses)
