"""Findings that Kafka cannot take at once wait, and those that it never takes end no query.

Records of the frames topic that are no blocks reach the quarantine: librdkafka's mock broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from expectations.judging.finding import Finding
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import create_topics
from streaming.judging.bucket_input import NO_BLOCK, Quarantined
from streaming.judging.report import Report
from streaming.log import KAFKA_LOG
from streaming.query import topic_sinks
from streaming.query.topic_sinks import FindingsNotWrittenError, FindingsSink, QuarantineFate, QuarantineSink
from tests.exchange import ID_A, ID_B, Exchange

MORE_THAN_A_QUEUE = 120_000
"""Findings of one batch: librdkafka's queue holds 100,000."""
OUTAGE = 3.0
SMALL_BYTES, MANY = 10_000, 50
"""The longest batch of a topic, and findings of one batch that are longer together."""


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


@pytest.mark.jvm
def test_a_batch_larger_than_the_queue_is_written(broker: EmbeddedBroker) -> None:
    sink, one = FindingsSink(broker.internal, "many", {}), finding(0)
    many = (msgspec.structs.replace(one, id=f"{number:024x}") for number in range(MORE_THAN_A_QUEUE))
    assert sink.write(many) == 0
    assert records_of(broker, "many") >= MORE_THAN_A_QUEUE


@pytest.mark.jvm
def test_a_finding_that_kafka_never_takes_is_logged_and_the_others_are_written(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = FindingsSink(broker.internal, "large", {})
    assert sink.write([finding(1), finding(2, "x" * 2_000_000), finding(3)]) == 1
    assert records_of(broker, "large") >= 2
    assert [line["id"] for line in logged(capsys, "finding-refused")] == [finding(2).id]


@pytest.mark.jvm
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
    assert [line["id"] for line in logged(capsys, "finding-refused")] == [large.id]
    assert sink.write([finding(MANY + 2)]) == 0


def test_an_outage_is_not_logged_connection_by_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines would wait in memory until the next batch, and then come at once."""
    monkeypatch.setattr(topic_sinks, "FLUSH_SECONDS", 0.5)
    findings, quarantine = (
        FindingsSink("127.0.0.1:1", "nowhere", {}),
        QuarantineSink("127.0.0.1:1", TOPIC, {}),
    )
    time.sleep(OUTAGE)
    with pytest.raises(FindingsNotWrittenError):
        findings.write([finding(1)])
    quarantine.write([])
    assert not [record for record in caplog.records if record.name == KAFKA_LOG.logger.name]


def test_without_kafka_the_batch_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_sinks, "FLUSH_SECONDS", 0.5)
    with pytest.raises(FindingsNotWrittenError, match="no answer in time"):
        FindingsSink("127.0.0.1:1", "nowhere", {}).write([finding(1)])


class StallingProducer:
    """Kafka refuses the first finding of each batch for the size of the batch, and stalls at the second.

    `sent` has the IDs of all findings that it was given, also of those that it was given again.
    """

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.stalls = True

    def produce(self, _topic: str, key: str | bytes, value: bytes, on_delivery: Callable[..., None]) -> None:
        name = key if isinstance(key, str) else key.decode()
        self.sent.append(name)
        if name == finding(1).id:
            message = Mock(spec=Message)
            message.key.return_value, message.value.return_value = name.encode(), value
            on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), message)

    def flush(self, _seconds: float) -> int:
        return int(self.stalls)


def test_findings_of_a_large_batch_are_sent_alone_once_all_others_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of batches that were repeated meanwhile are not sent again."""
    producer, batch = StallingProducer(), [finding(1), finding(2)]
    monkeypatch.setattr(topic_sinks, "made", lambda *_: producer)
    sink, names = FindingsSink("127.0.0.1:1", "nowhere", {}), [each.id for each in batch]
    for _ in range(2):
        with pytest.raises(FindingsNotWrittenError, match="no answer in time"):
            sink.write(batch)
    assert producer.sent == 2 * names
    producer.stalls = False
    assert sink.write(batch) == 1
    assert producer.sent == 3 * names + names[:1]


TOPIC = "kipwatch.quarantine"


def logged(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    """The lines of the query's log about an event, since the last call."""
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return [line for line in lines if line["event"] == event]


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A mock broker lives as long as the producer that made it."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (metadata,) = producer.list_topics(timeout=5).brokers.values()
    yield f"{metadata.host}:{metadata.port}"
    producer.flush(5)


def refused(count: int, passed_on: int) -> Report:
    records = [
        Quarantined("kipwatch.frames", 3, offset, "damaged: it ends early", 6, b"poison")
        for offset in range(passed_on)
    ]
    return Report(0, undecodable={NO_BLOCK: count, "truncated": 9}, quarantined=records)


def written(bootstrap: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    partitions = consumer.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in partitions])
    found: list[Message] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count, 1.0)
    consumer.close()
    return found


def test_a_record_is_written_with_its_reason_and_place(bootstrap: str) -> None:
    sink = QuarantineSink(bootstrap, TOPIC, {})
    assert sink.write([refused(1, 1), Report(1)]) == {QuarantineFate.WRITTEN: 1}
    (message,) = written(bootstrap, 1)
    assert (message.key(), message.value()) == (b"kipwatch.frames/3/0", b"poison")
    assert dict(message.headers()) == {
        "kipwatch-reason": b"damaged: it ends early",
        "kipwatch-topic": b"kipwatch.frames",
        "kipwatch-partition": b"3",
        "kipwatch-offset": b"0",
        "kipwatch-size": b"6",
    }


def test_a_batch_that_is_judged_again_writes_the_same_keys(bootstrap: str) -> None:
    sink = QuarantineSink(bootstrap, TOPIC, {})
    for _ in range(2):
        assert sink.write([refused(5, 3)]) == {QuarantineFate.WRITTEN: 3, QuarantineFate.LEFT_OUT: 2}
    keys = [message.key() for message in written(bootstrap, 6)]
    assert len(keys) == 6 and len(set(keys)) == 3


def test_a_record_that_kafka_does_not_take_keeps_no_other_one_out(bootstrap: str) -> None:
    """It is written without its bytes, and what comes after it as ever."""
    sink = QuarantineSink(bootstrap, TOPIC, {"message.max.bytes": 2_000})
    large = Quarantined("kipwatch.frames", 3, 7, "no block of kipwatch", 5_000, bytes(5_000))
    assert sink.write([Report(0, undecodable={NO_BLOCK: 1}, quarantined=[large])]) == {
        QuarantineFate.WRITTEN: 1
    }
    assert sink.write([refused(1, 1)]) == {QuarantineFate.WRITTEN: 1}
    found = {message.key(): message for message in written(bootstrap, 2)}
    assert found[b"kipwatch.frames/3/7"].value() in (b"", None)
    assert dict(found[b"kipwatch.frames/3/7"].headers())["kipwatch-size"] == b"5000"
    assert found[b"kipwatch.frames/3/0"].value() == b"poison"


def test_without_kafka_it_is_counted_and_logged_and_the_next_batch_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topic_sinks, "WRITTEN_WITHIN", 0.2)
    sink = QuarantineSink("127.0.0.1:1", TOPIC, {})
    assert sink.write([refused(5, 3)]) == {QuarantineFate.FAILED: 3, QuarantineFate.LEFT_OUT: 2}
    (line,) = logged(capsys, "not-quarantined")
    assert (line["records"], line["line"].startswith(f"{TOPIC}: ")) == (3, True)
    monkeypatch.setattr(topic_sinks, "WRITTEN_WITHIN", 1000.0)
    assert sink.write([refused(4, 4)]) == {QuarantineFate.FAILED: 4}
    assert logged(capsys, "not-quarantined") == []


def test_a_topic_that_cannot_be_used_is_logged_once_and_its_records_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = QuarantineSink("127.0.0.1:1", TOPIC, {}, "cannot create the topic")
    for _ in range(2):
        assert sink.write([refused(2, 1)]) == {QuarantineFate.FAILED: 1, QuarantineFate.LEFT_OUT: 1}
    (line,) = logged(capsys, "no-quarantine")
    assert line["line"] == "cannot create the topic"
