"""Publishing records: to Kafka, keyed by connection, in order, each once.

Records wait in memory for a broker that is slow or away, without a limit of time and up to a limit of
bytes; what finds no room is shed (`shedding`). Only when not even closings have room left, publishing
waits; then the ring fills, and the kernel counts what it drops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from decoders.frame.columnar.packing import PackedFrames
from decoders.frame.record import Record, pack, unpack
from decoders.wire.columnar.frames import FrameBatch
from streaming.feeder.log import tell
from streaming.feeder.shedding import Shedding
from streaming.settings.kafka_client import Setting, librdkafka_settings
from streaming.user_error import UserError

OVERFULL, ROOM_AGAIN = 0.8, 0.5
"""Shares of the buffer: shedding begins at the first and ends at the second."""
OVERHEAD = 512
"""Bytes that a waiting record takes beside its own, about."""
ATTENDED = 256
"""Records of a batch after which it is heard what became of earlier ones."""

_DEFAULTS: Mapping[str, Setting] = {
    "client.id": "kipwatch-feeder",
    "compression.type": "lz4",
    "linger.ms": 20,
}


class Publisher:
    """Hands records to Kafka.

    `delivered` and `refused` count what Kafka took and refused for good, `shedding` what it was never
    given. `fatal` says why nothing can be published any more, "" while it can.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        settings: Mapping[str, Setting],
        buffer_bytes: int,
        waits: Callable[[], bool],
    ) -> None:
        """Connect. `settings` are librdkafka's, as `kafka_client` describes them.

        `waits` is called again and again while there is no room, and tells whether to go on waiting. Raises
        UserError for settings that librdkafka refuses, or that would break what is promised here.
        """
        self.shedding = Shedding()
        self.delivered, self.refused, self.waiting_bytes = 0, 0, 0
        self.fatal = ""
        self._topic, self._buffer_bytes, self._waits = topic, buffer_bytes, waits
        self._overfull = self._away = False
        self._told: set[int] = set()
        """Errors that were told of since Kafka took a record."""
        promised = {
            "enable.idempotence": True,
            # A record waits until it is taken: the buffer's size alone decides what is shed.
            "message.timeout.ms": 0,
            "queue.buffering.max.kbytes": max(1, buffer_bytes // 1024),
            "queue.buffering.max.messages": max(1, buffer_bytes // OVERHEAD),
            "error_cb": self._hear_error,
            # The errors are told here, in the feeder's own words and once.
            "log_level": 0,
        }
        self._producer = _producer(bootstrap, settings, promised)

    @property
    def is_taken(self) -> bool:
        """Whether Kafka takes the records as they come."""
        return not (self._overfull or self._away or self.fatal)

    @property
    def fates(self) -> dict[str, int]:
        """How many records had which fate so far."""
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
        """Queue or shed all records of a batch, and attend meanwhile."""
        packed = PackedFrames(batch)
        for number, record in enumerate(batch.in_order()):
            if isinstance(record, Record):
                self.publish(record)
            elif self._overfull or not self.shedding.is_idle:
                self.publish(batch.record(record))
            else:
                self._send(packed.key(record), packed.value(record))
            if number % ATTENDED == 0:
                self.attend()

    def attend(self) -> None:
        """Hear what became of the records, and see whether there is room. To be called often."""
        self._producer.poll(0)
        if self.waiting_bytes > OVERFULL * self._buffer_bytes and not self._overfull:
            self._overfull = True
            tell("shedding", waiting_bytes=self.waiting_bytes)
        elif self.waiting_bytes < ROOM_AGAIN * self._buffer_bytes and self._overfull:
            self._recover()

    def flush(self, seconds: float) -> int:
        """Wait until Kafka has everything, at most so long. Gives how many records are left."""
        ends_at = time.monotonic() + seconds
        left: int = self._producer.flush(seconds)
        if not left and self._overfull:
            self._recover()
            left = self._producer.flush(max(0.0, ends_at - time.monotonic()))
        return left

    def _recover(self) -> None:
        self._overfull = False
        for record in self.shedding.recover():
            self._queue(record)
        tell("recovered", shed_records=self.shedding.records, shed_bytes=self.shedding.bytes)

    def _queue(self, record: Record) -> None:
        self._send(record.connection, pack(record))

    def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
            except BufferError:
                if not self._waits():
                    self.refused += 1
                    return
                self._producer.poll(0.1)
            else:
                self.waiting_bytes += len(value) + OVERHEAD
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.waiting_bytes -= len(message) + OVERHEAD
        if error is None:
            self.delivered += 1
            self._hear_well()
            return
        self.refused += 1
        self._away = True
        self.shedding.refuse(unpack(message.key(), message.value()))
        self._hear_error(error)

    def _hear_well(self) -> None:
        if self._away:
            tell("delivering")
        self._away = False
        self._told.clear()

    def _hear_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error.str()
        self._away = self._away or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION)
        if error.code() not in self._told:
            self._told.add(error.code())
            tell("kafka-trouble", error=error.name(), message=error.str(), waiting_bytes=self.waiting_bytes)


def _producer(bootstrap: str, settings: Mapping[str, Setting], promised: Mapping[str, Any]) -> Producer:
    if taken := sorted(settings.keys() & promised.keys()):
        raise UserError(f"the feeder itself decides {taken[0]}; take it out of the table [kafka]")
    try:
        return Producer({**librdkafka_settings(bootstrap, {**_DEFAULTS, **settings}), **promised})
    except KafkaException as error:
        raise UserError(f"the table [kafka] is invalid: {error.args[0].str()}") from error
