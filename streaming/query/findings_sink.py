"""The findings topic: one JSON document per finding, keyed by its id, so that compaction keeps the latest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from expectations.judging.finding import Finding
from streaming.log import KAFKA_LOG, QUERY_LOG
from streaming.settings.kafka_client import Setting, librdkafka_settings, made

FLUSH_SECONDS = 30.0
POLL_SECONDS = 0.1
_REFUSALS: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
"""Errors that say that Kafka will never take this finding, however often it is sent."""


class FindingsNotWrittenError(RuntimeError):
    """The findings of a batch did not reach the topic; the batch is repeated."""


class FindingsSink:
    """Writes findings and waits until Kafka acknowledges them."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, Setting]) -> None:
        """`settings` is the table [kafka] of the configuration. Raises UserError if it is invalid."""
        self._topic = topic
        client = librdkafka_settings(bootstrap, settings)
        self._producer = made(
            Producer, {**client, "enable.idempotence": True, "linger.ms": 5, "logger": KAFKA_LOG.logger}
        )
        self._failures: set[str] = set()
        self._in_large_batches: list[tuple[bytes, bytes]] = []
        """Keys and values of findings that the broker refused with their batch, which was too large."""
        self._refused = 0

    def write(self, findings: Iterable[Finding]) -> int:
        """Write findings; return how many Kafka refuses for good, each of which is logged.

        Waits while the producer's queue is full. Raises FindingsNotWrittenError unless each of the others was
        acknowledged, or if nothing is acknowledged for FLUSH_SECONDS.
        """
        self._failures.clear()
        self._refused = 0
        for finding in findings:
            self._send(finding)
        self._flush()
        self._send_one_by_one()
        if self._failures:
            reasons = "; ".join(sorted(self._failures))
            raise FindingsNotWrittenError(f"findings were not written to {self._topic}: {reasons}")
        return self._refused

    def _flush(self) -> None:
        if self._producer.flush(FLUSH_SECONDS):
            self._failures.add("no answer in time")

    def _send_one_by_one(self) -> None:
        """Send again, each in a batch of its own, what the broker refused together."""
        refused, self._in_large_batches = self._in_large_batches, []
        for key, value in refused:
            self._producer.produce(self._topic, key=key, value=value, on_delivery=self._on_delivery_alone)
            self._flush()

    def _send(self, finding: Finding) -> None:
        value = msgspec.json.encode(finding)
        deadline = time.monotonic() + FLUSH_SECONDS
        while time.monotonic() < deadline:
            try:
                self._producer.produce(
                    self._topic, key=finding.id, value=value, on_delivery=self._on_delivery
                )
            except BufferError:
                # Room is made by acknowledgments, which `poll` processes.
                if self._producer.poll(POLL_SECONDS):
                    deadline = time.monotonic() + FLUSH_SECONDS
            except KafkaException as failed:
                self._record(failed.args[0], finding.id)
                return
            else:
                return
        raise FindingsNotWrittenError(f"findings were not written to {self._topic}: the queue stays full")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._in_large_batches.append((message.key() or b"", message.value() or b""))
        else:
            self._on_delivery_alone(error, message)

    def _on_delivery_alone(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._record(error, (message.key() or b"").decode())

    def _record(self, error: KafkaError, finding_id: str) -> None:
        if error.code() in _REFUSALS:
            self._refused += 1
            QUERY_LOG.warning("finding-refused", id=finding_id, error=error.name(), message=error.str())
        else:
            self._failures.add(error.str())
