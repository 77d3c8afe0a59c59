"""What Kafka cannot take at once waits, and what it never takes ends no query."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.query.findings_sink import FindingsNotWrittenError, FindingsSink
from tests.exchange import ID_A, ID_B, Exchange

MORE_THAN_A_QUEUE = 120_000
"""Findings of one batch: librdkafka's queue holds 100,000."""
SMALL_BYTES, MANY = 10_000, 50
"""The longest batch of a topic, and findings of one batch that are longer together."""

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        create_topics(running.internal, "many", "large", settings={})
        yield running


def finding(number: int, message: str = "m") -> Finding:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    found = exchange.judge().findings[0]
    return msgspec.structs.replace(found, id=f"{number:024x}", message=message)


def records_of(broker: EmbeddedBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.internal, "group.id": "test"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    offsets = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        for partition in partitions
    ]
    consumer.close()
    return sum(highest - lowest for lowest, highest in offsets)


def test_a_batch_larger_than_the_queue_is_written(broker: EmbeddedBroker) -> None:
    sink, one = FindingsSink(broker.internal, "many", {}), finding(0)
    many = (msgspec.structs.replace(one, id=f"{number:024x}") for number in range(MORE_THAN_A_QUEUE))
    assert sink.write(many) == 0
    assert records_of(broker, "many") >= MORE_THAN_A_QUEUE


def test_a_finding_that_kafka_never_takes_is_logged_and_the_others_are_written(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = FindingsSink(broker.internal, "large", {})
    assert sink.write([finding(1), finding(2, "x" * 2_000_000), finding(3)]) == 1
    assert records_of(broker, "large") >= 2
    assert "finding-refused" in capsys.readouterr().out


def test_a_broker_that_refuses_a_batch_for_its_size_gets_its_findings_one_by_one(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker takes or refuses a batch as a whole: one finding that is too large takes no other along."""
    admin = AdminClient({"bootstrap.servers": broker.internal})
    topic = NewTopic("small", 1, config={"max.message.bytes": str(SMALL_BYTES)})
    admin.create_topics([topic])["small"].result(30)
    sink = FindingsSink(broker.internal, "small", {})
    large = finding(MANY, "x" * 2 * SMALL_BYTES)
    assert sink.write([*map(finding, range(MANY)), large, finding(MANY + 1)]) == 1
    assert records_of(broker, "small") == MANY + 1
    assert capsys.readouterr().out.count('"event": "finding-refused"') == 1
    assert sink.write([finding(MANY + 2)]) == 0


def test_without_kafka_the_batch_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.query.findings_sink.FLUSH_SECONDS", 1.0)
    with pytest.raises(FindingsNotWrittenError, match="no answer in time"):
        FindingsSink("127.0.0.1:1", "nowhere", {}).write([finding(1)])
