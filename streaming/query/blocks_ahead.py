"""Counts the frames of the blocks that wait in the topic, by their headers, while a batch is under way.

A consumer of the driver reads ahead of the query, as far as the next two batches. It does so only while the
query is limited and blocks are small: a topic of large blocks is not read twice.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from py4j.protocol import Py4JError

from decoders.frame.columnar.block import FRAMES_HEADER, MOST_FRAMES
from streaming.query.batch_limit import BatchLimit, Waiting
from streaming.settings.kafka_client import Setting, librdkafka_settings, made

BATCHES_AHEAD: Final = 2.5
"""How many batches are counted: the one under way, the next one, and what comes meanwhile."""
MOST_BLOCKS: Final = 100_000
"""Blocks that are counted, however small they are."""
PAUSE: Final = 0.05
"""Seconds between two looks at what waits."""
IDLE_PAUSE: Final = 0.5
"""Seconds between two looks whether blocks must be counted."""
_FETCHED: Final = 1_000
_MOST_DIGITS: Final = 10
_OWN_SETTINGS: Final = {
    # It joins no group; the client demands a name for one.
    "group.id": "kipwatch-blocks-ahead",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 16_384,
    "log_level": 0,
}


class Counted:
    """The blocks of one partition that were counted and not read by a batch yet, from offset `begin` on."""

    def __init__(self, begin: int) -> None:
        self.frames: deque[int] = deque()
        self.sum = 0
        self._begin = self._high = begin

    def add(self, offset: int, frames: int) -> None:
        """Add the block at an offset. Offsets that are missing hold no block.

        If more are missing than are counted, Kafka has deleted them, and the query goes on behind them, too.
        """
        missing = offset - self._begin - len(self.frames)
        if missing > MOST_BLOCKS:
            self.frames.clear()
            self.sum, self._begin, missing = 0, offset, 0
        self.frames.extend([0] * missing)
        self.frames.append(frames)
        self.sum += frames

    def read_to(self, offset: int) -> None:
        """Forget the blocks up to an offset: a batch has read them."""
        while self._begin < offset and self.frames:
            self.sum -= self.frames.popleft()
            self._begin += 1
        self._begin = max(self._begin, offset)

    def waiting(self, high: int) -> Waiting:
        """Return what waits up to the end of the partition, offset `high`."""
        self._high = max(self._high, high)
        return Waiting(max(len(self.frames), self._high - self._begin), list(self.frames))


class BlocksAhead:
    """Counts blocks for the limit of a query."""

    def __init__(
        self, limit: BatchLimit, frames: int, bootstrap: str, topic: str, settings: Mapping[str, Setting]
    ) -> None:
        """`frames` are those of a batch, `settings` is the table [kafka]. Raises UserError."""
        self._limit, self._topic, self._most = limit, topic, BATCHES_AHEAD * frames
        self._settings = {**librdkafka_settings(bootstrap, settings), **_OWN_SETTINGS}
        self._lock = threading.Lock()
        self._counted: dict[int, Counted] = {}
        self._consumer: Consumer | None = None

    def start(self, is_active: Callable[[], bool], apply: Callable[[], None]) -> None:
        """Count in a thread while a query is active; `apply` is called when the limit has changed."""
        arguments = is_active, apply
        threading.Thread(target=self._run, args=arguments, name="blocks-ahead", daemon=True).start()

    def fit(self) -> None:
        """Fit the limit to the blocks that wait, as far as they are counted."""
        with self._lock:
            read_to = self._limit.read_to
            for partition, counted in self._counted.items():
                counted.read_to(read_to[partition])
            self._limit.fit([each.waiting(self._end(partition)) for partition, each in self._counted.items()])

    def look(self) -> None:
        """Count what is there, if blocks must be counted, and wait a little.

        While Kafka refuses, nothing is counted, and what waits is taken for full blocks.
        """
        try:
            if self._limit.counts_blocks:
                self._count(self._joined())
                return
        except KafkaException:
            pass
        self._leave()
        time.sleep(IDLE_PAUSE)

    def _count(self, consumer: Consumer) -> None:
        if self._is_far_ahead():
            time.sleep(PAUSE)
        else:
            self._take(consumer.consume(_FETCHED, PAUSE))
            self.fit()

    def _run(self, is_active: Callable[[], bool], apply: Callable[[], None]) -> None:
        try:
            while is_active():
                before = self._limit.blocks
                self.look()
                if self._limit.blocks != before:
                    apply()
        except (Py4JError, OSError):
            # The JVM has ended, and the query with it.
            pass
        finally:
            self._leave()

    def _joined(self) -> Consumer:
        """Return the consumer, which reads the partitions from where the query has read to."""
        consumer = self._consumer or made(Consumer, dict(self._settings))
        self._consumer, read_to = consumer, dict(self._limit.read_to)
        new = sorted(read_to.keys() - self._counted.keys())
        if new:
            with self._lock:
                self._counted |= {partition: Counted(read_to[partition]) for partition in new}
            consumer.incremental_assign(
                [TopicPartition(self._topic, partition, read_to[partition]) for partition in new]
            )
        return consumer

    def _leave(self) -> None:
        if self._consumer is not None:
            with self._lock:
                consumer, self._consumer = self._consumer, None
                self._counted.clear()
            consumer.close()

    def _is_far_ahead(self) -> bool:
        counted = self._counted.values()
        frames, blocks = sum(each.sum for each in counted), sum(len(each.frames) for each in counted)
        return frames >= self._most or blocks >= MOST_BLOCKS

    def _take(self, messages: list[Message]) -> None:
        with self._lock:
            for message in messages:
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition in self._counted and offset is not None:
                    self._counted[partition].add(offset, _frames_of(message))

    def _end(self, partition: int) -> int:
        """Return the end of a partition as the latest fetch told it, which asks no broker."""
        if self._consumer is None:
            return 0
        where = TopicPartition(self._topic, partition)
        high: int = self._consumer.get_watermark_offsets(where, cached=True)[1]
        return max(0, high)


def _frames_of(message: Message) -> int:
    """Return the frames of a block as its header tells; what does not is taken for a full block."""
    for name, value in message.headers() or ():
        # Python refuses to read a number of thousands of digits, which a stranger may write.
        if name == FRAMES_HEADER and value is not None and value.isdigit() and len(value) <= _MOST_DIGITS:
            return min(int(value), MOST_FRAMES)
    return MOST_FRAMES
