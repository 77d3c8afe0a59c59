"""Reads the latest records of the frames topic, up to its present end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from decoders.frame.columnar.block import BlockError
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.record import Record
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

GROUP = "kipwatch-audit"
"""The consumer group. The names of Spark's groups begin with it."""
PATIENCE = 10.0
"""Seconds to wait for the next response of Kafka."""
_FIRST_BLOCKS = 2
"""Blocks of a partition that are read first. Each further time it is twice as many."""
_MOST_BLOCKS = 1_024
_MOST_READ = 100_000
"""Maximum number of records read of a partition: they may hold few frames, or be no blocks."""

Placed = tuple[int, int, int, Record]
"""Partition, offset of a block, row in it, and the record there."""
PlacedBlock = tuple[int, int, str | None]
"""Partition and offset of a record of the topic, and why it is no block; None if it is one."""


@dataclass(slots=True)
class TopicSlice:
    """Records of the topic, and the frames in those that are blocks."""

    blocks: list[PlacedBlock] = field(default_factory=list)
    frames: list[Placed] = field(default_factory=list)

    def add(self, partition: int, offset: int, value: bytes | None) -> None:
        """Add a record of the topic, and the frames in it."""
        try:
            records = list(read_block(value or b""))
        except BlockError as error:
            self.blocks.append((partition, offset, str(error)))
        else:
            self.blocks.append((partition, offset, None))
            self.frames += [(partition, offset, row, record) for row, record in enumerate(records)]


def latest_slice(
    bootstrap: str, topic: str, limit: int, settings: Mapping[str, Setting] = MappingProxyType({})
) -> TopicSlice:
    """Read the last `limit` frames, evenly over the partitions; `settings` are librdkafka's.

    Raises UserError if Kafka cannot be reached or the topic does not exist.
    """
    with _reader(bootstrap, topic, settings) as consumer:
        ends = _ends(consumer, topic)
        share, found = max(1, limit // len(ends)), TopicSlice()
        for partition, (low, high) in ends.items():
            latest = _latest(consumer, TopicPartition(topic, partition), low, high, share)
            found.blocks += latest.blocks
            found.frames += latest.frames[-share:]
        return found


def demand_topic(bootstrap: str, topic: str, settings: Mapping[str, Setting]) -> None:
    """Raise UserError if Kafka cannot be reached or the topic does not exist."""
    with _reader(bootstrap, topic, settings) as consumer:
        _ends(consumer, topic)


@contextmanager
def _reader(bootstrap: str, topic: str, settings: Mapping[str, Setting]) -> Iterator[Consumer]:
    consumer = made(
        Consumer,
        {
            **librdkafka_settings(bootstrap, settings),
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        },
    )
    try:
        yield consumer
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        raise UserError(f"cannot read the topic {topic} at {bootstrap}: {cause.str()}") from error
    finally:
        consumer.close()


def _latest(consumer: Consumer, where: TopicPartition, low: int, high: int, share: int) -> TopicSlice:
    """Read a partition backwards from its present end, until there are enough frames."""
    found = TopicSlice()
    begin, blocks = high, _FIRST_BLOCKS
    while begin > low and len(found.frames) < share and len(found.blocks) < _MOST_READ:
        end, begin = begin, max(low, begin - blocks)
        blocks = min(2 * blocks, _MOST_BLOCKS)
        earlier = TopicSlice()
        for message in _between(consumer, where, begin, end):
            earlier.add(message.partition(), message.offset(), message.value())
        found = TopicSlice(earlier.blocks + found.blocks, earlier.frames + found.frames)
    return found


def _between(consumer: Consumer, where: TopicPartition, begin: int, end: int) -> Iterator[Message]:
    """Read the records from one offset up to another one."""
    consumer.assign([TopicPartition(where.topic, where.partition, begin)])
    while True:
        message = consumer.poll(PATIENCE)
        if message is None:
            silent = f"Kafka sent nothing of the topic {where.topic} for {PATIENCE:.0f} s"
            raise UserError(f"{silent}; check that the broker runs")
        offset = message.offset()
        if _is_record(message) and offset < end:
            yield message
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
    """Whether a message is a record, and not the event at the end of a partition."""
    error = message.error()
    if error is None:
        return True
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return False
