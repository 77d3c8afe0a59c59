"""Publishes records to Kafka, keyed by connection, in order, exactly once.

While a broker is slow or unreachable, records wait in memory, without a limit of time and up to a limit of
bytes; further ones are shed (see `shedding`). Publishing blocks only when there is no room for closings
either; then the ring fills, and the kernel counts the packets that it drops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from decoders.frame.columnar.packing import PackedFrames
from decoders.frame.record import Record, pack, unpack
from decoders.wire.columnar.frames import FrameBatch
from streaming.feeder.shedding import Shedding
from streaming.log import FEEDER_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

SHED_ABOVE, RECOVER_BELOW = 0.8, 0.5
"""Shares of the buffer at which shedding begins and ends."""
OVERHEAD = 512
"""Approximate memory of a waiting record beside its own bytes."""
POLL_EVERY = 256
"""Records of a batch between two polls for delivery reports."""
FLUSH_STEP = 0.2
"""Seconds between two looks at the topic while the feeder waits for Kafka at its end."""

CLIENT_ID = "kipwatch-feeder"
"""The client ID of all Kafka clients of the feeder, by which another feeder may exclude them."""
_DEFAULTS: Mapping[str, Setting] = {
    "client.id": CLIENT_ID,
    "compression.type": "lz4",
    "linger.ms": 20,
}


class Publisher:
    """Publishes records to Kafka.

    `delivered` and `refused` count the records that Kafka accepted and finally refused, `shedding` those that
    were never sent. `fatal` says why no record can be published any more and what to do, "" while records can
    be.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        settings: Mapping[str, Setting],
        buffer_bytes: int,
        waits: Callable[[], bool],
        *,
        topic_problem: Callable[[], str] = lambda: "",
    ) -> None:
        """Connect. `settings` are librdkafka's, as `kafka_client` describes them.

        `waits` is called repeatedly while there is no room, and returns whether to go on waiting.
        `topic_problem` is called often, and says why the topic cannot be published to, "" otherwise. Raises
        UserError for settings that librdkafka refuses, or that the publisher itself must set.
        """
        self.shedding = Shedding()
        self.delivered, self.refused, self.waiting_bytes = 0, 0, 0
        self.fatal = ""
        self._topic, self._buffer_bytes, self._waits = topic, buffer_bytes, waits
        self._topic_problem = topic_problem
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

    def publish(self, record: Record) -> None:
        """Queue a record, or shed it."""
        for admitted in self.shedding.admit(record, overfull=self._overfull):
            self._queue(admitted)

    def publish_batch(self, batch: FrameBatch) -> None:
        """Queue or shed all records of a batch, polling in between."""
        packed = PackedFrames(batch)
        for number, record in enumerate(batch.in_order()):
            if isinstance(record, Record):
                self.publish(record)
            elif self._overfull or not self.shedding.is_idle:
                self.publish(batch.record(record))
            else:
                self._send(packed.key(record), packed.value(record))
            if number % POLL_EVERY == 0:
                self.poll()

    def poll(self) -> None:
        """Process delivery reports, and begin or end shedding. To be called often."""
        self._producer.poll(0)
        self._check_topic()
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
            left = len(self._producer)
            if not left or self.fatal or time.monotonic() >= ends_at:
                return left
            self._producer.flush(FLUSH_STEP)

    def _check_topic(self) -> None:
        self.fatal = self.fatal or self._topic_problem()

    def _recover(self) -> None:
        self._overfull = False
        for record in self.shedding.recover():
            self._queue(record)
        FEEDER_LOG.info("recovered", shed_records=self.shedding.records, shed_bytes=self.shedding.bytes)

    def _queue(self, record: Record) -> None:
        self._send(record.connection, pack(record))

    def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=value, on_delivery=self._on_delivery)
            except BufferError:
                self._check_topic()
                if self.fatal or not self._waits():
                    self.refused += 1
                    return
                self._producer.poll(0.1)
            else:
                self.waiting_bytes += len(value) + OVERHEAD
                return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self.waiting_bytes -= len(message) + OVERHEAD
        if error is None:
            self.delivered += 1
            self._on_accepted()
            return
        self.refused += 1
        self._unreachable = True
        self.shedding.refuse(unpack(message.key(), message.value()))
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
