"""One step by kafka-python, perhaps set to an old version of Kafka."""

from __future__ import annotations

import signal
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer

RECORDS, PATIENCE = 10, 30


def produce(topic: str, settings: dict[str, Any]) -> None:
    producer = KafkaProducer(client_id="old-producer", retries=0, request_timeout_ms=10_000, **settings)
    for number in range(RECORDS):
        producer.send(topic, f"record {number}".encode()).get(10)
    producer.close(5)


def consume(topic: str, settings: dict[str, Any]) -> None:
    consumer = KafkaConsumer(
        topic, client_id="old-consumer", group_id=f"{topic}-group", auto_offset_reset="earliest", **settings
    )
    left = RECORDS
    while left > 0:
        left -= sum(map(len, consumer.poll(500).values()))
    consumer.close()


def main() -> None:
    bootstrap, topic, step = sys.argv[1:]
    signal.alarm(PATIENCE)
    name, _, version = step.partition("-")
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if version:
        settings["api_version"] = tuple(map(int, version.split(".")))
    {"produce": produce, "consume": consume}[name](topic, settings)


if __name__ == "__main__":
    main()
