"""Publishes records to Kafka in blocks: each record exactly once, those of a connection in order.

Records are collected for each partition until they fill a block, or `block_seconds` have passed. While a
broker is slow or unreachable, blocks wait in memory, for any time and up to a limit of bytes; beyond it,
records are shed (see `shedding`). Only if there is no room for the small records that are never shed does
publishing block; then the ring of the capture fills, and the kernel counts the packets that it drops.

The connection to Kafka may be in several of these states at once, or in none. `FramesTopic` creates the topic
and has states of its own (`streaming/broker/topics.py`).

    state          begins when                      ends when                     in between
    topic unknown  the publisher is made            the number of partitions is   all records are collected
                                                    known: it is fixed then, as   together; publishing waits
                                                    connections must keep their   while the buffer is full
                                                    partitions
    unreachable    no broker is left, the login     Kafka accepts a block         blocks wait; not ready
                   fails, or Kafka refuses a block
    overfull       the waiting records exceed 80 %  they are below 50 %: gaps     records are shed; not ready
                   of the buffer                    replace what was shed
    fatal          only a person can mend the       never                         nothing waits for Kafka; the
                   topic, or librdkafka can no                                    feeder ends with the reason
                   longer keep the order
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from decoders.frame.columnar.block import MOST_FRAMES, headers_of
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.columnar.block_writing import Block, BlockWriter
from decoders.frame.record import Record
from decoders.wire.columnar.frames import FrameBatch, Joining, batch_of
from streaming.feeder.shedding import Shedding
from streaming.log import FEEDER_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

ROW_BYTES: Final = 128
"""Approximate memory of a collected record, without its frame."""
SHED_ABOVE, RECOVER_BELOW = 0.8, 0.5
"""Shares of the buffer above which shedding begins, and below which it ends."""
OVERHEAD = 512
"""Approximate memory of a waiting block, without its own bytes."""
FLUSH_STEP = 0.2
"""Seconds between two checks of the topic while the feeder waits for Kafka."""

CLIENT_ID = "kipwatch-feeder"
"""The client ID of all Kafka clients of the feeder. Another feeder may exclude them by it."""
_DEFAULTS: Mapping[str, Setting] = {
    "client.id": CLIENT_ID,
    # A block is compressed already, and large enough for a request of its own.
    "compression.type": "none",
    "linger.ms": 0,
}


class Collected:
    """Collects records of each partition until they fill a block or have waited long enough.

    Until the number of partitions is known, all records stay together.
    """

    def __init__(self, block_seconds: float, schemas: str) -> None:
        """A block is due `block_seconds` after its first record. `schemas` is the digest of the feeder's."""
        self._block_seconds, self._schemas = block_seconds, schemas
        self._early = Joining()
        self._writer: BlockWriter | None = None
        self._since = np.empty(0)
        """When the open block of each partition began; infinite without one."""
        self._earliest = math.inf
        """The earliest of these times."""

    @property
    def records(self) -> int:
        """The number of records."""
        return self._early.size + (self._writer.rows if self._writer else 0)

    @property
    def bytes(self) -> int:
        """Approximate memory of the records."""
        content = self._early.bytes + (self._writer.bytes if self._writer else 0)
        return content + self.records * ROW_BYTES

    def begin(self, partitions: int) -> list[Block]:
        """Begin a block for each of `partitions`. Returns blocks that are full at once."""
        self._writer, self._since = BlockWriter(partitions, self._schemas), np.full(partitions, np.inf)
        early, self._early = self._early, Joining()
        return self._noted(self._writer.add(early.batch()))

    def add(self, batch: FrameBatch) -> list[Block]:
        """Add the records of a batch, whose memory may be reused afterwards. Returns full blocks."""
        if self._writer is None:
            self._early.add(batch)
            return []
        return self._noted(self._writer.add(batch))

    def take_due(self) -> list[Block]:
        """Return the blocks that are due."""
        now = time.monotonic()
        if self._writer is None or now - self._earliest < self._block_seconds:
            return []
        return self._noted(self._writer.take(now - self._since >= self._block_seconds))

    def take(self) -> list[Block]:
        """Return all blocks; none while the partitions are unknown."""
        return self._noted(self._writer.take()) if self._writer else []

    def drop(self) -> int:
        """Drop the records that wait for partitions. Returns how many they are."""
        dropped, self._early = self._early.size, Joining()
        return dropped

    def _noted(self, taken: list[Block]) -> list[Block]:
        """Note which blocks were closed and which have begun. Returns `taken`."""
        if self._writer:
            if taken:
                self._since[[block.partition for block in taken]] = np.inf
            np.minimum(self._since, time.monotonic(), out=self._since, where=self._writer.waiting)
            self._earliest = float(self._since.min())
        return taken


class Topic(Protocol):
    """The topic to publish to."""

    @property
    def partitions(self) -> int:
        """The number of partitions, 0 while it is unknown."""

    def problem(self) -> str:
        """Return why nothing can be published to it; "" if that is unknown or possible. Called often."""


class Publisher:
    """The outlet of records to Kafka.

    `delivered` and `refused` count the records that Kafka accepted and finally refused, `shedding` those that
    were never sent. `fatal` tells why no record can be published any more and what to do, and is ""
    otherwise.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        settings: Mapping[str, Setting],
        buffer_bytes: int,
        waits: Callable[[], bool],
        *,
        topic: Topic,
        block_seconds: float = 0.1,
        schemas: str = "",
    ) -> None:
        """Connect. `name` is the topic's; `kafka_client` describes `settings`, `schemas` is a digest.

        While there is no room, `waits` is called again and again, and returns whether to go on waiting.
        Raises UserError for settings that librdkafka refuses, or that the publisher itself must set.
        """
        self.shedding = Shedding()
        self.delivered, self.refused = 0, 0
        self.fatal = ""
        self._name, self._buffer_bytes, self._waits = name, buffer_bytes, waits
        self._topic, self._partitions = topic, 0
        self._collected = Collected(block_seconds, schemas)
        self._queued_bytes = self._queued = 0
        self._overfull = self._unreachable = False
        self._logged: set[int] = set()
        """Codes of the errors that were logged since Kafka last accepted a record."""
        required = {
            "enable.idempotence": True,
            # Never expire: the size of the buffer alone decides what is shed.
            "message.timeout.ms": 0,
            "queue.buffering.max.kbytes": max(1, buffer_bytes // 1024),
            "queue.buffering.max.messages": max(1, buffer_bytes // OVERHEAD),
            "error_cb": self._on_error,
            # `_on_error` logs each error once.
            "log_level": 0,
        }
        self._producer = _producer(bootstrap, settings, required)
        self._check_topic()

    @property
    def is_accepting(self) -> bool:
        """Whether Kafka accepts records without delay."""
        return not (self._overfull or self._unreachable or self.fatal)

    @property
    def fates(self) -> dict[str, int]:
        """The number of records so far by fate."""
        return {"delivered": self.delivered, "refused": self.refused, "shed": self.shedding.records}

    @property
    def shed_bytes(self) -> int:
        """Bytes of watched connections that were captured and are not published."""
        return self.shedding.bytes

    @property
    def waiting_bytes(self) -> int:
        """Approximate memory of the records that wait, in blocks or for Kafka."""
        return self._queued_bytes + self._collected.bytes

    def publish(self, record: Record) -> None:
        """Collect a record, or shed it."""
        for admitted in self.shedding.admit(record, overfull=self._overfull):
            self._collect(admitted)

    def publish_batch(self, batch: FrameBatch) -> None:
        """Collect or shed the records of a batch, polling in between."""
        for number, part in enumerate(batch.parts(MOST_FRAMES)):
            if number:
                self.poll()
            if self._overfull or not self.shedding.is_idle:
                for record in part.records():
                    self.publish(record)
            else:
                self._send_all(self._collected.add(part))
                self._await_topic_if_full()

    def poll(self) -> None:
        """Send due blocks, process delivery reports, begin or end shedding. Call it often."""
        self._check_topic()
        self._send_all(self._collected.take_due())
        self._producer.poll(0)
        if self.waiting_bytes > SHED_ABOVE * self._buffer_bytes and not self._overfull:
            self._overfull = True
            FEEDER_LOG.warning("shedding", waiting_bytes=self.waiting_bytes)
        elif self.waiting_bytes < RECOVER_BELOW * self._buffer_bytes and self._overfull:
            self._recover()

    def flush(self, seconds: float) -> int:
        """Wait until Kafka has all records, for at most `seconds`. Returns how many remain.

        Returns at once when no record can be published any more.
        """
        ends_at = time.monotonic() + seconds
        left = self._flush_until(ends_at)
        if not left and self._overfull:
            self._recover()
            left = self._flush_until(ends_at)
        return left

    def _flush_until(self, ends_at: float) -> int:
        while True:
            self._check_topic()
            self._send_all(self._collected.take())
            left = self._queued + self._collected.records
            if not left or self.fatal or time.monotonic() >= ends_at:
                return left
            if self._queued:
                self._producer.flush(FLUSH_STEP)
            else:
                time.sleep(FLUSH_STEP)

    def _check_topic(self) -> None:
        self.fatal = self.fatal or self._topic.problem()
        if not self._partitions and self._topic.partitions:
            self._partitions = self._topic.partitions
            self._send_all(self._collected.begin(self._partitions))

    def _recover(self) -> None:
        self._overfull = False
        for record in self.shedding.recover():
            self._collect(record)
        FEEDER_LOG.info("recovered", shed_records=self.shedding.records, shed_bytes=self.shedding.bytes)

    def _collect(self, record: Record) -> None:
        self._send_all(self._collected.add(batch_of(record)))
        self._await_topic_if_full()

    def _await_topic_if_full(self) -> None:
        if not self._partitions and self.waiting_bytes >= self._buffer_bytes:
            self._await_topic()

    def _await_topic(self) -> None:
        """Wait until the partitions are known. If they never will be, refuse what was collected."""
        while not self._partitions and not self.fatal and self._waits():
            time.sleep(FLUSH_STEP)
            self._check_topic()
        if not self._partitions:
            self.refused += self._collected.drop()

    def _send_all(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._send(block)

    def _send(self, block: Block) -> None:
        while True:
            try:
                self._producer.produce(
                    self._name,
                    block.value,
                    partition=block.partition,
                    headers=headers_of(block.rows),
                    on_delivery=partial(self._on_delivery, block.rows),
                )
            except BufferError:
                self._check_topic()
                if self.fatal or not self._waits():
                    self.refused += block.rows
                    return
                self._producer.poll(0.1)
            else:
                self._queued_bytes += len(block.value) + OVERHEAD
                self._queued += block.rows
                return

    def _on_delivery(self, rows: int, error: KafkaError | None, message: Message) -> None:
        self._queued_bytes -= len(message) + OVERHEAD
        self._queued -= rows
        if error is None:
            self.delivered += rows
            self._on_accepted()
            return
        self.refused += rows
        self._unreachable = True
        for record in read_block(message.value()):
            self.shedding.refuse(record)
        self._on_error(error)

    def _on_accepted(self) -> None:
        if self._unreachable:
            FEEDER_LOG.info("delivering")
        self._unreachable = False
        self._logged.clear()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = f"Kafka accepts no more records of this run: {error.str()}; start the feeder again"
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION):
            self._unreachable = True
        if error.code() not in self._logged:
            self._logged.add(error.code())
            message, waiting_bytes = error.str(), self.waiting_bytes
            FEEDER_LOG.warning(
                "kafka-trouble", error=error.name(), message=message, waiting_bytes=waiting_bytes
            )


def _producer(bootstrap: str, settings: Mapping[str, Setting], required: Mapping[str, Any]) -> Producer:
    if conflicting := sorted(settings.keys() & required.keys()):
        raise UserError(f"the feeder itself sets {conflicting[0]}; remove it from the table [kafka]")
    return made(Producer, {**librdkafka_settings(bootstrap, {**_DEFAULTS, **settings}), **required})
