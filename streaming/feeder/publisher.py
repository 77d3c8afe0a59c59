"""Publishes records to Kafka in blocks, those of a connection in order, exactly once.

Records are collected until they fill a block for each partition, or some milliseconds have passed. While a
broker is slow or unreachable, they wait in memory, without a limit of time and up to a limit of bytes;
further ones are shed (see `shedding`). Publishing blocks only when there is no room for closings either; then
the ring fills, and the kernel counts the packets that it drops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer

from decoders.frame.columnar.block import MOST_FRAMES, headers_of
from decoders.frame.columnar.block_reading import read_block
from decoders.frame.columnar.block_writing import Block
from decoders.frame.record import Record
from decoders.wire.columnar.frames import FrameBatch
from streaming.feeder.collected import Collected
from streaming.feeder.shedding import Shedding
from streaming.log import FEEDER_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

SHED_ABOVE, RECOVER_BELOW = 0.8, 0.5
"""Shares of the buffer at which shedding begins and ends."""
OVERHEAD = 512
"""Approximate memory of a waiting block beside its own bytes."""
FLUSH_STEP = 0.2
"""Seconds between two looks at the topic while the feeder waits for Kafka at its end."""

CLIENT_ID = "kipwatch-feeder"
"""The client ID of all Kafka clients of the feeder, by which another feeder may exclude them."""
_DEFAULTS: Mapping[str, Setting] = {
    "client.id": CLIENT_ID,
    # Blocks are compressed, and large enough for a request each.
    "compression.type": "none",
    "linger.ms": 0,
}


class Topic(Protocol):
    """The topic to publish to."""

    @property
    def partitions(self) -> int:
        """How many partitions it has, 0 while that is not known."""

    def problem(self) -> str:
        """Say why it cannot be published to; "" if it can, or that is not known. Called often."""


class Publisher:
    """Publishes records to Kafka.

    `delivered` and `refused` count the records that Kafka accepted and finally refused, `shedding` those that
    were never sent. `fatal` says why no record can be published any more and what to do, "" while records can
    be.
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
    ) -> None:
        """Connect. `name` is the topic's, `settings` are librdkafka's, as `kafka_client` describes them.

        `waits` is called repeatedly while there is no room, and returns whether to go on waiting. Records
        wait `block_seconds` for others of their block. Raises UserError for settings that librdkafka refuses,
        or that the publisher itself must set.
        """
        self.shedding = Shedding()
        self.delivered, self.refused = 0, 0
        self.fatal = ""
        self._name, self._buffer_bytes, self._waits = name, buffer_bytes, waits
        self._topic, self._partitions = topic, 0
        """Set once: a connection must not change its partition."""
        self._collected = Collected(block_seconds)
        self._queued_bytes = self._queued = 0
        self._overfull = self._unreachable = False
        self._logged: set[int] = set()
        """Codes of the errors that were logged since Kafka last accepted a record."""
        required = {
            "enable.idempotence": True,
            # No record expires: the size of the buffer alone decides what is shed.
            "message.timeout.ms": 0,
            "queue.buffering.max.kbytes": max(1, buffer_bytes // 1024),
            "queue.buffering.max.messages": max(1, buffer_bytes // OVERHEAD),
            "error_cb": self._on_error,
            # Errors are logged by `_on_error`, each once.
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
        """Bytes of the watched connections that were captured and not published."""
        return self.shedding.bytes

    @property
    def waiting_bytes(self) -> int:
        """Approximate memory of the records that wait, for their block or for Kafka."""
        return self._queued_bytes + self._collected.bytes

    def publish(self, record: Record) -> None:
        """Collect a record, or shed it."""
        for admitted in self.shedding.admit(record, overfull=self._overfull):
            self._collect(admitted)

    def publish_batch(self, batch: FrameBatch) -> None:
        """Collect or shed all records of a batch, polling in between."""
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
        """Send what is due, process delivery reports, begin or end shedding. To be called often."""
        self._check_topic()
        self._send_all(self._collected.take_due())
        self._producer.poll(0)
        if self.waiting_bytes > SHED_ABOVE * self._buffer_bytes and not self._overfull:
            self._overfull = True
            FEEDER_LOG.warning("shedding", waiting_bytes=self.waiting_bytes)
        elif self.waiting_bytes < RECOVER_BELOW * self._buffer_bytes and self._overfull:
            self._recover()

    def flush(self, seconds: float) -> int:
        """Wait until Kafka has all records, within a time limit. Returns how many remain.

        It ends at once when no record can be published any more.
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
        self._send_all(self._collected.add_record(record))
        self._await_topic_if_full()

    def _await_topic_if_full(self) -> None:
        if not self._partitions and self.waiting_bytes >= self._buffer_bytes:
            self._await_topic()

    def _await_topic(self) -> None:
        """Wait until the partitions of the topic are known; refuse what is collected if that is hopeless."""
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
