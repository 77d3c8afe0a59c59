"""How many blocks a micro-batch may read, so that it has about as many frames as are configured.

Spark limits a batch by offsets, which are blocks here: a block of a busy feeder has thousands of frames, one
of an idle feeder three. `BatchLimit` holds the limit:

| the latest batch | the limit is |
|---|---|
| was not limited | the number of full blocks that hold the frames |
| was limited | the number of waiting blocks whose counted frames fit |

`BlocksAhead` counts those frames while a batch is under way. A consumer in the driver reads the blocks'
headers, up to BATCHES_AHEAD batches ahead of the query, and only in the second state: Kafka sends a topic
twice to a query that is behind, and once to one that keeps up. A block that was not counted yet is taken for
a full one, so no batch has more frames than are configured.

Spark asks the source for its limit when the query starts, and passes that limit to the source before each
batch. `BatchLimit.apply` replaces it in between; the source itself is not touched.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from decoders.frame.columnar.block import FRAMES_HEADER, MOST_FRAMES
from streaming.judging.report import Report
from streaming.settings.kafka_client import Setting, librdkafka_settings, made

BATCHES_AHEAD: Final = 2.5
"""Counting goes this many batches ahead: the one under way, the next one, and what comes meanwhile."""
MOST_BLOCKS: Final = 100_000
"""No more blocks are counted, however small they are."""
PAUSE: Final = 0.05
"""Seconds between two looks at the waiting blocks."""
IDLE_PAUSE: Final = 0.5
"""Seconds between two looks whether blocks must be counted."""
_FETCHED: Final = 1_000
_MOST_DIGITS: Final = 10
_OWN_SETTINGS: Final = {
    # It joins no group, but the client demands a group ID.
    "group.id": "kipwatch-blocks-ahead",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 16_384,
    "log_level": 0,
}


class Waiting(NamedTuple):
    """The blocks of a partition that no batch has read: how many, and the frames of the first of them."""

    blocks: int
    counted: Sequence[int]


class BatchLimit:
    """The limit of blocks for `frames` frames.

    `frames_per_block` is the mean of the latest batch with blocks. `read_to` holds the offset behind the last
    block that was read of each partition. `counts_blocks` says whether waiting blocks must be counted.
    """

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self.frames_per_block = 1.0
        self.blocks = self._least = max(1, frames // MOST_FRAMES)
        self.read_to: dict[int, int] = {}
        self.counts_blocks = False
        self._lock = threading.Lock()

    def follow(self, frames: int, blocks: int, read_to: Mapping[int, int]) -> None:
        """Follow a batch that had `frames` frames in `blocks` blocks."""
        with self._lock:
            self.read_to |= read_to
            if blocks:
                self.frames_per_block = frames / blocks
                self.counts_blocks = 2 * blocks >= self._least
                self.blocks = self._least

    def fit(self, waiting: Sequence[Waiting]) -> None:
        """Let the next batch read as many of the blocks that wait as fit."""
        with self._lock:
            if self.counts_blocks:
                self.blocks = max(self._least, fitting(waiting, self._frames))

    def followed(self, reports: Iterable[Report]) -> Iterator[Report]:
        """Yield the reports of a batch, and then follow it."""
        frames = blocks = 0
        read_to: dict[int, int] = {}
        for report in reports:
            frames += sum(report.captured.values())
            blocks += report.blocks
            for partition, offset in report.read_to.items():
                read_to[partition] = max(offset, read_to.get(partition, 0))
            yield report
        self.follow(frames, blocks, read_to)

    def apply(self, query: Any, session: SparkSession) -> None:
        """Set the limit for the next batch of a StreamingQuery of a session."""
        jvm: Any = session.sparkContext._jvm
        limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(self.blocks)
        execution = query._jsq.streamingQuery()
        sources = execution.uniqueSources()
        for source in _keys(sources):
            sources = sources.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(sources)


def fitting(waiting: Sequence[Waiting], frames: int) -> int:
    """Return the largest limit of blocks with which a batch has at most `frames` frames, at least 1.

    Spark divides a limit among the partitions in proportion to the blocks that wait in each.
    """
    total = sum(each.blocks for each in waiting)
    sums = [np.cumsum([0, *each.counted]) for each in waiting]

    def read(limit: int) -> int:
        shares = (_share(limit, each.blocks, total) for each in waiting)
        return sum(map(_frames_of, sums, shares))

    everything = read(total)
    if everything <= frames:
        return max(1, total + (frames - everything) // MOST_FRAMES)
    return max(1, bisect_right(range(total), frames, lo=1, key=read) - 1)


def _share(limit: int, blocks: int, total: int) -> int:
    """Return how many blocks Spark reads of a partition: at least one if any wait."""
    share = limit * blocks / total if total else 0.0
    return min(blocks, int(share) if share >= 1 else int(share > 0))


def _frames_of(sums: Any, blocks: int) -> int:
    """Return the frames of the first blocks, those that were not counted taken for full ones."""
    counted = min(blocks, len(sums) - 1)
    return int(sums[counted]) + (blocks - counted) * MOST_FRAMES


def _keys(mapping: Any) -> list[Any]:
    iterator, keys = mapping.keysIterator(), []
    while iterator.hasNext():
        keys.append(iterator.next())
    return keys


class CountedBlocks:
    """The blocks of one partition, from offset `begin` on, that were counted and that no batch has read."""

    def __init__(self, begin: int) -> None:
        self.frames: deque[int] = deque()
        self.sum = 0
        self._begin = self._high = begin

    def add(self, offset: int, frames: int) -> None:
        """Add the block at an offset, unless a batch has read it. Offsets that are skipped hold no block.

        More than MOST_BLOCKS missing offsets mean that Kafka has deleted them. The query continues behind
        them, and so does counting.
        """
        missing = offset - self._begin - len(self.frames)
        if missing < 0:
            return
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
        """Return the blocks that wait up to the end of the partition, offset `high`."""
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
        self._counted: dict[int, CountedBlocks] = {}
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
        """Count waiting blocks if that is needed, and wait a little.

        While Kafka refuses, nothing is counted, and waiting blocks are taken for full ones.
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
        """Return the consumer. It begins in each partition behind the last block that the query has read."""
        consumer = self._consumer or made(Consumer, dict(self._settings))
        self._consumer, read_to = consumer, dict(self._limit.read_to)
        new = sorted(read_to.keys() - self._counted.keys())
        if new:
            with self._lock:
                self._counted |= {partition: CountedBlocks(read_to[partition]) for partition in new}
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
                    self._counted[partition].add(offset, _frames_in(message))

    def _end(self, partition: int) -> int:
        """Return the end of a partition from the latest fetch response, without asking a broker."""
        if self._consumer is None:
            return 0
        where = TopicPartition(self._topic, partition)
        high: int = self._consumer.get_watermark_offsets(where, cached=True)[1]
        return max(0, high)


def _frames_in(message: Message) -> int:
    """Return the number of frames in a block's header. A block without it is taken for a full one."""
    for name, value in message.headers() or ():
        # Python refuses to read a number of thousands of digits, which anybody may write.
        if name == FRAMES_HEADER and value is not None and value.isdigit() and len(value) <= _MOST_DIGITS:
            return min(int(value), MOST_FRAMES)
    return MOST_FRAMES
