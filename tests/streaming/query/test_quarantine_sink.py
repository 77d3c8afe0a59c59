"""Records of the frames topic that are no frames reach a topic of their own: librdkafka's mock broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from streaming.judging.quarantine import NO_BLOCK, Quarantined
from streaming.judging.report import Report
from streaming.query import quarantine_sink
from streaming.query.quarantine_sink import Fate, QuarantineSink

TOPIC = "kipwatch.quarantine"


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
    assert sink.write([refused(1, 1), Report(1)]) == {Fate.WRITTEN: 1}
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
        assert sink.write([refused(5, 3)]) == {Fate.WRITTEN: 3, Fate.LEFT_OUT: 2}
    keys = [message.key() for message in written(bootstrap, 6)]
    assert len(keys) == 6 and len(set(keys)) == 3


def test_a_record_that_kafka_does_not_take_keeps_no_other_one_out(bootstrap: str) -> None:
    """It is written without its bytes, and what comes after it as ever."""
    sink = QuarantineSink(bootstrap, TOPIC, {"message.max.bytes": 2_000})
    large = Quarantined("kipwatch.frames", 3, 7, "no block of kipwatch", 5_000, bytes(5_000))
    assert sink.write([Report(0, undecodable={NO_BLOCK: 1}, quarantined=[large])]) == {Fate.WRITTEN: 1}
    assert sink.write([refused(1, 1)]) == {Fate.WRITTEN: 1}
    found = {message.key(): message for message in written(bootstrap, 2)}
    assert found[b"kipwatch.frames/3/7"].value() in (b"", None)
    assert dict(found[b"kipwatch.frames/3/7"].headers())["kipwatch-size"] == b"5000"
    assert found[b"kipwatch.frames/3/0"].value() == b"poison"


def test_without_kafka_it_is_counted_and_logged_and_the_next_batch_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quarantine_sink, "WRITTEN_WITHIN", 0.2)
    sink = QuarantineSink("127.0.0.1:1", TOPIC, {})
    assert sink.write([refused(5, 3)]) == {Fate.FAILED: 3, Fate.LEFT_OUT: 2}
    monkeypatch.setattr(quarantine_sink, "WRITTEN_WITHIN", 1000.0)
    assert sink.write([refused(4, 4)]) == {Fate.FAILED: 4}


def test_a_topic_that_cannot_be_used_is_logged_once_and_its_records_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = QuarantineSink("127.0.0.1:1", TOPIC, {}, "cannot create the topic")
    for _ in range(2):
        assert sink.write([refused(2, 1)]) == {Fate.FAILED: 1, Fate.LEFT_OUT: 1}
