"""Reads the findings topic: new findings as they arrive, and the latest state of each."""

from __future__ import annotations

import time

import msgspec
from confluent_kafka import Consumer

from expectations.judging.finding import Finding

_DECODER = msgspec.json.Decoder(Finding)


class FindingsTopic:
    """Reads the topic from its beginning. `findings` holds the latest state of each finding by ID."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "kipwatch-demo-screen",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])
        self.findings: dict[str, Finding] = {}

    def poll(self, seconds: float) -> list[Finding]:
        """Return the findings that are new since the last call, waiting at most `seconds` for them."""
        fresh = []
        deadline = time.monotonic() + seconds
        while message := self._consumer.poll(max(0.0, deadline - time.monotonic())):
            if message.error() is not None:
                continue
            finding = _DECODER.decode(message.value())
            if finding.id not in self.findings:
                fresh.append(finding)
            self.findings[finding.id] = finding
        return fresh

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
