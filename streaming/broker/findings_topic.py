"""Reads the findings topic: new findings as they arrive, and the latest state of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from expectations.judging.finding import Finding
from streaming.settings.kafka_client import Setting, librdkafka_settings, made
from streaming.user_error import UserError

RESPONSE_SECONDS: Final = 30.0
_DECODER: Final = msgspec.json.Decoder(Finding)


class FindingsTopic:
    """Reads the topic from its beginning. `findings` holds the latest state of each finding by ID."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, Setting] = MappingProxyType({})
    ) -> None:
        """`settings` is the table [kafka] of the configuration.

        Raises UserError if the table is invalid, Kafka does not respond or has no such topic.
        """
        # It joins no group, so it may pause for as long as it likes; the client demands a name for one.
        own = {"group.id": "kipwatch-findings", "enable.auto.commit": False, "log_level": 0}
        self._consumer = made(Consumer, {**librdkafka_settings(bootstrap, settings), **own})
        self._consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING)
                for partition in self._partitions(bootstrap, topic)
            ]
        )
        self.findings: dict[str, Finding] = {}

    def poll(self, seconds: float) -> list[Finding]:
        """Return the findings that are new since the last call, waiting at most `seconds` for them."""
        fresh = []
        deadline = time.monotonic() + seconds
        while message := self._consumer.poll(max(0.0, deadline - time.monotonic())):
            if message.error() is not None or message.value() is None:
                continue
            finding = _DECODER.decode(message.value())
            if finding.id not in self.findings:
                fresh.append(finding)
            self.findings[finding.id] = finding
        return fresh

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _partitions(self, bootstrap: str, topic: str) -> list[int]:
        try:
            described = self._consumer.list_topics(topic, RESPONSE_SECONDS).topics[topic]
        except KafkaException as error:
            raise UserError(
                f"Kafka does not respond at {bootstrap}: {error.args[0].str()}; check that it runs there"
            ) from error
        if described.error is not None:
            reason = f"cannot read the topic {topic} at {bootstrap}: {described.error.str()}"
            raise UserError(f"{reason}; `kipwatch run` creates it")
        return list(described.partitions)
