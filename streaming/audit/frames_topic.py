"""Reads the latest records of the frames topic, up to its present end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from decoders.frame.columnar.block import BlockError
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.record import Record
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

PATIENCE = 10.0
"""Seconds to wait for the next response of Kafka."""
_FIRST_BLOCKS = 2
"""How many blocks of a partition are read at first; each further time it is twice as many."""
_MOST_BLOCKS = 1_024

Placed = tuple[int, int, int, Record]
"""Partition, offset of a block, row in it, and the record there."""


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
        ends = _ends(consumer, topic)
        share = max(1, limit // len(ends))
        return [
            placed
            for partition, (low, high) in ends.items()
            for placed in _latest(consumer, TopicPartition(topic, partition), low, high, share)
        ]
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        raise UserError(f"cannot read the topic {topic} at {bootstrap}: {cause.str()}") from error
    finally:
        consumer.close()


def _latest(consumer: Consumer, where: TopicPartition, low: int, high: int, share: int) -> list[Placed]:
    """Read a partition backwards from its present end, until there are enough records."""
    found: list[Placed] = []
    begin, blocks = high, _FIRST_BLOCKS
    while begin > low and len(found) < share:
        end, begin = begin, max(low, begin - blocks)
        blocks = min(2 * blocks, _MOST_BLOCKS)
        found = [*_between(consumer, where, begin, end), *found]
    return found[-share:]


def _between(consumer: Consumer, where: TopicPartition, begin: int, end: int) -> Iterator[Placed]:
    """Read the records from one offset up to another one."""
    consumer.assign([TopicPartition(where.topic, where.partition, begin)])
    while True:
        message = consumer.poll(PATIENCE)
        if message is None:
            silent = f"Kafka sent nothing of the topic {where.topic} for {PATIENCE:.0f} s"
            raise UserError(f"{silent}; check that the broker runs")
        offset = message.offset()
        if _is_record(message) and offset < end:
            for row, record in enumerate(_opened(message)):
                yield where.partition, offset, row, record
        if offset >= end - 1:
            return


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


def _opened(message: Message) -> list[Record]:
    try:
        return list(read_block(message.value() or b""))
    except BlockError as error:
        place = f"{message.topic()}, partition {message.partition()}, offset {message.offset()}"
        raise UserError(f"{place} holds no frames of kipwatch: {error}; check --frames-topic") from error
