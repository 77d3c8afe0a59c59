"""The publisher without a broker: it buffers, sheds, and refuses settings that it must set itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, Message

from decoders.frame.columnar.block import MOST_FRAMES
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.record import Kind, Record
from decoders.wire.columnar.packets import PacketBatch
from streaming.feeder.publisher import Publisher
from streaming.settings.configuration import MOST_MEBIBYTES
from streaming.settings.kafka_client import Setting
from streaming.user_error import UserError
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import exchanges, new_columnar_tracker
from tests.streaming.feeder.known_topic import KnownTopic
from tests.streaming.feeder.test_shedding import record

NOWHERE = "127.0.0.1:1"
BUFFER = 100_000


class Sent(NamedTuple):
    """What Kafka's client was given."""

    partition: int
    records: list[Record]
    headers: list[tuple[str, bytes]]


class RecordingProducer:
    """Kafka's client, replaced: it keeps what it is given, and delivers or refuses nothing by itself."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._reports: list[Callable[[KafkaError | None], None]] = []

    def produce(
        self,
        name: str,
        value: bytes,
        *,
        partition: int,
        headers: list[tuple[str, bytes]],
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        self.sent.append(Sent(partition, list(read_block(value)), headers))
        message = Message(topic=name, value=value)
        self._reports.append(lambda error: on_delivery(error, message))

    def report(self, error: KafkaError | None = None) -> None:
        """Report the fate of the earliest block whose fate is not known."""
        self._reports.pop(0)(error)

    def poll(self, _seconds: float) -> None:
        """Report nothing."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> RecordingProducer:
    """The client of publishers that are made after it."""
    made = RecordingProducer()
    monkeypatch.setattr("streaming.feeder.publisher.made", lambda *_: made)
    return made


def publisher(
    settings: dict[str, Setting] | None = None,
    buffer: int = BUFFER,
    topic: KnownTopic | None = None,
    *,
    block_seconds: float = 0.0,
) -> Publisher:
    topic = topic or KnownTopic()
    return Publisher(
        NOWHERE, "frames", settings or {}, buffer, lambda: False, topic=topic, block_seconds=block_seconds
    )


def test_without_a_broker_it_buffers_and_then_sheds_and_logs_that(capsys: pytest.CaptureFixture[str]) -> None:
    away = publisher()
    away.publish(record(Kind.OPENED, 1))
    for sequence in range(2, 300):
        away.publish(record(Kind.REQUEST, sequence, size=1_000))
        away.poll()
    assert not away.is_accepting
    assert 0 < away.waiting_bytes < BUFFER
    assert away.fates["delivered"] == away.fates["refused"] == 0
    assert away.fates["shed"] > 200
    assert away.shed_bytes == away.fates["shed"] * 1_004
    events = [json.loads(line)["feeder"] for line in capsys.readouterr().out.splitlines()]
    assert events.count("shedding") == 1


def test_a_wait_for_room_ends_when_the_feeder_is_to_stop() -> None:
    full = publisher()
    for sequence in range(1, 1_000):
        full.publish(record(Kind.CLOSED, sequence))
        full.poll()
    assert full.fates["refused"] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable.idempotence": False}, "the feeder itself sets enable.idempotence"),
        ({"message.timeout.ms": 5}, "the feeder itself sets message.timeout.ms"),
        ({"bootstrap.servers": "here:1"}, "`bootstrap` names the brokers"),
        ({"sasl.password": "sesame"}, "is a secret: write env:NAME"),
        ({"no.such.setting": 1}, "the table \\[kafka\\] is invalid: No such configuration property"),
        ({"security.protocol": "rot13"}, "the table \\[kafka\\] is invalid: Invalid value"),
    ],
)
def test_invalid_settings_are_an_error_of_one_line(settings: dict[str, Setting], message: str) -> None:
    with pytest.raises(UserError, match=message):
        publisher(settings)


def test_the_largest_queue_that_may_be_configured_is_taken() -> None:
    assert publisher(buffer=MOST_MEBIBYTES << 20).is_accepting


def test_client_settings_pass_through() -> None:
    assert publisher({"compression.type": "zstd", "security.protocol": "ssl"}).is_accepting


def test_after_a_block_was_refused_it_is_not_ready_until_one_is_accepted(producer: RecordingProducer) -> None:
    refusing = publisher(topic=KnownTopic(1))
    for sequences in (range(1, 4), range(4, 6)):
        for sequence in sequences:
            refusing.publish(record(Kind.REQUEST, sequence, size=10))
        refusing.poll()
    producer.report(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert not refusing.is_accepting
    assert refusing.fates["refused"] == 3
    assert refusing.shed_bytes == 3 * 14
    producer.report()
    assert refusing.is_accepting and refusing.fates["delivered"] == 2
    assert refusing.waiting_bytes == 0


def test_a_batch_is_shed_from_its_first_part_without_room() -> None:
    """Frames that go from columns to the topic count like records."""
    packets = packets_between(exchanges(6_000), close=False)
    batch = new_columnar_tracker().feed(PacketBatch.of(packets))
    away, records = publisher(buffer=BUFFER, block_seconds=9.0), list(batch.records())
    away.publish_batch(batch)
    admitted = len(records) - away.fates["shed"]
    assert admitted == MOST_FRAMES < len(records)
    assert away.shed_bytes == sum(record.true_length + 4 for record in records[admitted:])


def test_records_wait_for_others_of_their_block_as_long_as_they_may(producer: RecordingProducer) -> None:
    """The ID of a connection decides on its partition, and a block's header has its number of frames."""
    publishing = publisher(topic=KnownTopic(2), block_seconds=0.2)
    records = [record(Kind.REQUEST, number, bytes([0, 0, 0, number]) * 4, 10) for number in range(1, 5)]
    for each in records:
        publishing.publish(each)
        publishing.poll()
    assert producer.sent == []
    time.sleep(0.25)
    publishing.poll()
    assert producer.sent == [
        Sent(0, records[1::2], [("kipwatch-block", b"2"), ("kipwatch-frames", b"2")]),
        Sent(1, records[::2], [("kipwatch-block", b"2"), ("kipwatch-frames", b"2")]),
    ]


def test_a_full_block_waits_for_nothing(producer: RecordingProducer) -> None:
    publishing = publisher(topic=KnownTopic(1), block_seconds=60.0, buffer=1 << 24)
    for number in range(1, MOST_FRAMES + 2):
        publishing.publish(record(Kind.REQUEST, number))
    (sent,) = producer.sent
    assert len(sent.records) == MOST_FRAMES


def test_while_the_partitions_are_not_known_records_wait_and_then_keep_their_order(
    producer: RecordingProducer,
) -> None:
    """Kafka is away when the feeder starts. With more partitions later, connections stay in theirs."""
    topic = KnownTopic(0)
    publishing = publisher(topic=topic)
    records = [record(Kind.REQUEST, number, bytes([0, 0, 0, 1]) * 4) for number in range(1, 8)]
    for each in records[:4]:
        publishing.publish(each)
        publishing.poll()
    assert producer.sent == [] and publishing.waiting_bytes > 0
    for partitions, later in ((2, records[4:6]), (3, records[6:])):
        topic.partitions = partitions
        for each in later:
            publishing.publish(each)
        publishing.poll()
    assert [sent.partition for sent in producer.sent] == [1, 1]
    assert [each for sent in producer.sent for each in sent.records] == records


def test_without_partitions_a_full_memory_refuses_what_is_collected() -> None:
    """Closings are never shed, so they may fill it."""
    away = publisher(topic=KnownTopic(0))
    for sequence in range(1, 2_000):
        away.publish(record(Kind.CLOSED, sequence))
    assert away.fates["refused"] > 0 and away.waiting_bytes < BUFFER


def test_a_topic_that_cannot_be_published_to_ends_the_waiting() -> None:
    """At once, whether it waits for room or for Kafka to accept the rest."""
    full = Publisher(NOWHERE, "frames", {}, BUFFER, lambda: True, topic=KnownTopic(2, "no such topic"))
    for sequence in range(1, 1_000):
        full.publish(record(Kind.CLOSED, sequence))
    started = time.monotonic()
    assert full.flush(30.0) > 0
    assert time.monotonic() - started < 5
    assert (full.fatal, full.is_accepting) == ("no such topic", False)
