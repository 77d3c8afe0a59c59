"""The publisher without a broker: it buffers, sheds, and refuses settings that it must set itself."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import KafkaError, Message

from decoders.frame.record import Kind, pack
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from streaming.feeder.publisher import OVERHEAD, POLL_EVERY, Publisher
from streaming.settings.kafka_client import Setting
from streaming.user_error import UserError
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import SCHEMAS, exchanges
from tests.streaming.feeder.test_shedding import record

NOWHERE = "127.0.0.1:1"
BUFFER = 100_000


def publisher(settings: dict[str, Setting] | None = None, buffer: int = BUFFER) -> Publisher:
    return Publisher(NOWHERE, "frames", settings or {}, buffer, lambda: False)


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


def test_client_settings_pass_through() -> None:
    assert publisher({"compression.type": "zstd", "security.protocol": "ssl"}).is_accepting


def test_after_a_record_was_refused_it_is_not_ready_until_one_is_accepted() -> None:
    refusing = publisher()
    request = record(Kind.REQUEST, 1)
    report = Message(topic="frames", key=request.connection, value=pack(request))
    refusing._on_delivery(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), report)
    assert not refusing.is_accepting
    assert refusing.fates["refused"] == 1
    refusing._on_delivery(None, report)
    assert refusing.is_accepting


def test_a_batch_is_shed_from_its_first_record_without_room() -> None:
    """Frames that go from columns to the topic count like their records."""
    packets = packets_between(exchanges(600), close=False)
    batch = ColumnarTracker(SCHEMAS, ports={9092}, run=7).feed(PacketBatch.of(packets))
    away, records = publisher(buffer=4 * BUFFER), list(batch.records())
    away.publish_batch(batch)
    admitted = len(records) - away.fates["shed"]
    assert POLL_EVERY <= admitted < len(records)
    assert away.waiting_bytes == sum(len(pack(record)) + OVERHEAD for record in records[:admitted])
    assert away.shed_bytes == sum(record.true_length + 4 for record in records[admitted:])


def test_a_topic_that_cannot_be_published_to_ends_the_waiting() -> None:
    """At once, whether the feeder waits for room or for Kafka to accept what is left."""
    full = Publisher(NOWHERE, "frames", {}, BUFFER, lambda: True, topic_problem=lambda: "no such topic")
    for sequence in range(1, 1_000):
        full.publish(record(Kind.CLOSED, sequence))
    started = time.monotonic()
    assert full.flush(30.0) > 0
    assert time.monotonic() - started < 5
    assert (full.fatal, full.is_accepting) == ("no such topic", False)
