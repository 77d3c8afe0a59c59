"""Reads the latest records of the frames topic, up to its present end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from decoders.frame.record import Record, RecordError, unpack
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

PATIENCE = 10.0
"""Seconds to wait for the next response of Kafka."""

Placed = tuple[int, int, Record]
"""Partition, offset, and the record at it."""


def latest_records(
    bootstrap: str, topic: str, limit: int, settings: Mapping[str, Setting] = MappingProxyType({})
) -> list[Placed]:
    """Read the last `limit` records, evenly over the partitions; `settings` are librdkafka's.

    Raises UserError if Kafka cannot be reached, the topic does not exist, or it holds other records.
    """
    consumer = made(
        Consumer,
        {
            **librdkafka_settings(bootstrap, settings),
            "group.id": "kipwatch-audit",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        },
    )
    try:
        return list(_latest(consumer, topic, limit))
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        raise UserError(f"cannot read the topic {topic} at {bootstrap}: {cause.str()}") from error
    finally:
        consumer.close()


def _latest(consumer: Consumer, topic: str, limit: int) -> Iterator[Placed]:
    """Read each partition up to its present end, so that the audit of a busy topic ends."""
    ends = _ends(consumer, topic)
    share = max(1, limit // len(ends))
    unread = {partition: high for partition, (low, high) in ends.items() if low < high}
    consumer.assign(
        [
            TopicPartition(topic, partition, max(ends[partition][0], high - share))
            for partition, high in unread.items()
        ]
    )
    while unread:
        message = consumer.poll(PATIENCE)
        if message is None:
            raise UserError(
                f"Kafka sent nothing of the topic {topic} for {PATIENCE:.0f} s; check that the broker runs"
            )
        partition, offset = message.partition(), message.offset()
        if _is_record(message) and offset < unread.get(partition, 0):
            yield partition, offset, _unpacked(message)
        if offset >= unread.get(partition, 0) - 1:
            unread.pop(partition, None)


def _ends(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    """Return the first offset of each partition, and the one after its last."""
    described = consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE)
        for partition in described.partitions
    }


def _is_record(message: Message) -> bool:
    """Whether it is a record, and not the event at the end of a partition."""
    error = message.error()
    if error is None:
        return True
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return False


def _unpacked(message: Message) -> Record:
    try:
        return unpack(message.key() or b"", message.value() or b"")
    except RecordError as error:
        place = f"{message.topic()}, partition {message.partition()}, offset {message.offset()}"
        raise UserError(f"{place} holds no record of kipwatch: {error}; check --frames-topic") from error
