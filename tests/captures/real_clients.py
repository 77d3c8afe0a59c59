"""Makes `real_clients.pcap`: `python -m tests.captures.real_clients`, as root, with tcpdump installed.

Real traffic on the loopback interface: librdkafka (by confluent-kafka) and the Java clients, each as a
producer and as consumers of both group protocols, against the embedded broker.
"""

from __future__ import annotations

import subprocess

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars, java
from tests.captures.recording import FOLDER, recorded

CAPTURE = FOLDER / "real_clients.pcap"
TOPIC = "captured"
MESSAGES = 10


def play(bootstrap: str) -> None:
    """Let every client do its work once."""
    administer(bootstrap)
    produce(bootstrap)
    for protocol in ("classic", "consumer"):
        consume(bootstrap, protocol)
    program = FOLDER / "JavaClients.java"
    classes = ":".join(map(str, jars("broker")))
    subprocess.run([java(), "-cp", classes, program, bootstrap, TOPIC], check=True)


def administer(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "librdkafka-admin"})
    for created in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        created.result()


def produce(bootstrap: str) -> None:
    with Producer({"bootstrap.servers": bootstrap, "client.id": "librdkafka-producer"}) as producer:
        for number in range(MESSAGES):
            producer.produce(TOPIC, f"message {number}")
        producer.flush(30)


def consume(bootstrap: str, protocol: str) -> None:
    name = f"librdkafka-{protocol}"
    settings = {"group.id": name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with Consumer({"bootstrap.servers": bootstrap, "client.id": name, **settings}) as consumer:
        consumer.subscribe([TOPIC])
        left = MESSAGES
        while left > 0:
            left -= len(consumer.consume(left, timeout=0.5))


def main() -> None:
    with EmbeddedBroker() as broker, recorded(broker.ports.watched, CAPTURE.name):
        play(broker.watched)


if __name__ == "__main__":
    main()
