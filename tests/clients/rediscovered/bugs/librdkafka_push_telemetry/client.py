"""A producer that is asked for the metrics of consumers."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer


def main() -> None:
    producer = Producer({"bootstrap.servers": sys.argv[1], "client.id": "librdkafka-producer"})
    producer.list_topics(timeout=20)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        producer.poll(0.5)


if __name__ == "__main__":
    main()
