"""Publishing records: to Kafka, keyed by connection, in order, each once."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, Message, Producer

from decoders.frame.record import Record, pack

QUEUED_KILOBYTES = 256 * 1024
"""What may wait for the broker before publishing waits, too."""


class Publisher:
    """Hands records to Kafka. When the queue is full, publishing waits: nothing is thrown away."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self.published = 0
        self.failed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "kipwatch-feeder",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.kbytes": QUEUED_KILOBYTES,
            }
        )

    def publish(self, records: Iterable[Record]) -> None:
        """Queue records for the topic."""
        for record in records:
            self._produce(record.connection, pack(record))
        self._producer.poll(0)

    def flush(self, seconds: float) -> int:
        """Wait until Kafka has everything, at most so long. Gives how many records are left."""
        left: int = self._producer.flush(seconds)
        return left

    def _produce(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.published += 1
        else:
            self.failed += 1
