"""The findings topic: one JSON document per finding, keyed by its id, so that compaction keeps the latest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from expectations.judging.finding import Finding
from streaming.settings.kafka_client import Setting, librdkafka_settings

FLUSH_SECONDS = 30.0


class FindingsNotWrittenError(RuntimeError):
    """The findings of a batch did not reach the topic; the batch is repeated."""


class FindingsSink:
    """Writes findings and waits until Kafka acknowledges them."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, Setting]) -> None:
        """`settings` is the table [kafka] of the configuration."""
        self._topic = topic
        client = librdkafka_settings(bootstrap, settings)
        self._producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
        self._failures: list[str] = []

    def write(self, findings: Iterable[Finding]) -> None:
        """Write findings. Raises FindingsNotWrittenError unless each of them was acknowledged."""
        self._failures.clear()
        for finding in findings:
            self._producer.produce(
                self._topic, key=finding.id, value=msgspec.json.encode(finding), on_delivery=self._delivered
            )
        left = self._producer.flush(FLUSH_SECONDS)
        if left or self._failures:
            reasons = "; ".join(sorted(set(self._failures))) or "no answer in time"
            raise FindingsNotWrittenError(f"findings were not written to {self._topic}: {reasons}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
