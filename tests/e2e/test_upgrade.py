"""A checkpoint of an earlier layout of the state is taken up by the query as if it were its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from decoders.frame.record import Record, pack
from expectations.finding import Finding
from expectations.terms import Terms
from streaming.bench.traffic import publish
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.configuration import Configuration
from streaming.query.bucket import Bucket
from streaming.query.earlier_state import BucketOfVersion2
from streaming.query.identity_stage import stepped_rows
from streaming.query.keys import Keys
from streaming.query.query import reports_of, start_query
from streaming.query.report import Report
from streaming.query.session import spark_session
from streaming.query.stages import BucketProcessor
from tests.exchange import ID_A, ID_B, Exchange

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.timeout(300)]

BUCKETS = 2
JUDGED = 120.0
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class _OneValue:
    """Spark's handle where the state has one value only."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def getValueState(self, name: str, schema: str) -> Any:  # noqa: N802 - Spark's name
        return self._handle.getValueState(name, schema) if name == "bucket" else None


class EarlierProcessor(BucketProcessor):
    """Steps a bucket as ever, and stores it as the layout of version 2 did: in one value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(_OneValue(handle))

    def _store(self, bucket: Bucket, report: Report) -> Iterator[Row]:
        earlier = BucketOfVersion2(
            dict(bucket.connections), bucket.clock, bucket.scheduled, bucket.republished_at, bucket.answered
        )
        self._standing.write(bytes([2]) + msgspec.msgpack.encode(earlier))
        return stepped_rows(report, self._buckets, self._keys)


class Judged:
    """What the query published."""

    def __init__(self) -> None:
        self.findings: dict[str, Finding] = {}
        self.frames = 0

    def take(self, _batch: int, reports: Iterator[Report]) -> None:
        for report in reports:
            self.findings.update({finding.id: finding for finding in report.findings})
            self.frames += sum(count for kinds in report.frames.values() for count in kinds.values())


def judge(
    session: SparkSession, configuration: Configuration, records: int, processor: StatefulProcessor | None
) -> Judged:
    """Run the query until it has committed so many records."""
    judged, deadline = Judged(), time.monotonic() + JUDGED
    query = start_query(reports_of(session, configuration, processor), configuration, judged.take)
    while sum(update.numInputRows for update in query.recentProgress) < records:
        assert query.isActive and time.monotonic() < deadline, query.exception()
        time.sleep(0.1)
    query.stop()
    return judged


def put(broker: EmbeddedBroker, records: list[Record]) -> None:
    """Publish records as a feeder does."""
    publish(broker.internal, "frames", ((record.connection, pack(record)) for record in records))


def test_connections_of_an_earlier_checkpoint_are_judged_on(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    begun = len(exchange.records)
    exchange.request("Metadata", 14, instance_id=ID_B)
    exchange.close()
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "frames", "findings", partitions=1)
        configuration = Configuration(
            bootstrap=broker.internal,
            frames_topic="frames",
            buckets=BUCKETS,
            checkpoint=str(tmp_path / "checkpoint"),
        )
        # A checkpoint without the file that names its keys, as earlier ones are.
        (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
        with spark_session(configuration) as session:
            put(broker, exchange.records[:begun])
            before = judge(
                session, configuration, begun, EarlierProcessor(BUCKETS, Terms(), keys=Keys.NUMBERED)
            )
            put(broker, exchange.records[begun:])
            after = judge(session, configuration, len(exchange.records) - begun, None)
    assert (before.frames, after.frames) == (4, 1)
    expected = {found.id: found.occurrences for found in exchange.judge().findings}
    assert {found.id: found.occurrences for found in (before.findings | after.findings).values()} == expected
    (changed,) = [found for found in after.findings.values() if found.rule == "kip1313/instance-id-changed"]
    assert changed.occurrences == 2
