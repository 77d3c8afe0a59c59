"""librdkafka's mock broker: prints its address, and serves until it is ended."""

from __future__ import annotations

import signal

from confluent_kafka import Producer

if __name__ == "__main__":
    # The producer holds the broker.
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    signal.pause()
