"""One step by confluent-kafka, perhaps set to an old version of Kafka."""

from __future__ import annotations

import signal
import sys
from typing import Any

from confluent_kafka import Consumer, Producer

RECORDS, PATIENCE = 10, 30


def produce(topic: str, settings: dict[str, Any]) -> None:
    failed: list[object] = []
    producer = Producer({**settings, "client.id": "old-producer", "message.timeout.ms": 10_000})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}", on_delivery=lambda error, _: failed.append(error))
        producer.flush(12)
    assert failed == [None] * RECORDS, failed


def consume(topic: str, settings: dict[str, Any]) -> None:
    own = {"client.id": "old-consumer", "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **own})
    consumer.subscribe([topic])
    left = RECORDS
    while left > 0:
        record = consumer.poll(1)
        left -= int(record is not None and record.error() is None)
    consumer.close()


def main() -> None:
    bootstrap, topic, step = sys.argv[1:]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PATIENCE)
    name, _, version = step.partition("-")
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if version:
        settings |= {"api.version.request": False, "broker.version.fallback": version}
    {"produce": produce, "consume": consume}[name](topic, settings)


if __name__ == "__main__":
    main()
