"""The workload by confluent-kafka."""

from __future__ import annotations

import os
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 50
SECURITY: dict[str, str] = {}
if user := os.environ.get("CLIENT_USER"):
    SECURITY |= {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}
    SECURITY |= {"sasl.username": user, "sasl.password": os.environ["CLIENT_PASSWORD"]}
if authority := os.environ.get("CLIENT_CA"):
    SECURITY |= {"security.protocol": "ssl", "ssl.ca.location": authority}


def settings(bootstrap: str, role: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, "client.id": f"librdkafka-{role}", **SECURITY}


def administer(bootstrap: str, topic: str) -> None:
    admin = AdminClient(settings(bootstrap, "admin"))
    for created in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        created.result(30)
    admin.list_topics(timeout=30)
    admin.list_consumer_groups().result(30)


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer(settings(bootstrap, "producer"))
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}")
        assert producer.flush(30) == 0


def send_unacknowledged(bootstrap: str, topic: str) -> None:
    producer = Producer({**settings(bootstrap, "unacknowledged"), "acks": 0})
    for number in range(10):
        producer.produce(topic, f"record {number}")
    assert producer.flush(30) == 0


def transact(bootstrap: str, topic: str) -> None:
    producer = Producer({**settings(bootstrap, "transactional"), "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, f"record {number}")
    producer.commit_transaction(30)


def flood(bootstrap: str, topic: str) -> None:
    """Send each record in a request of its own, and fetch them one by one."""
    records = int(os.environ["CLIENT_RECORDS"])
    small = {"linger.ms": 0, "batch.num.messages": 1, "queue.buffering.max.messages": 10_000}
    producer = Producer({**settings(bootstrap, "flood-producer"), **small})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, str(number))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(600) == 0
    small = {"max.partition.fetch.bytes": 1, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    group = {
        "group.id": f"{topic}-flood",
        "auto.offset.reset": "earliest",
        "receive.message.max.bytes": 10_000,
    }
    consumer = Consumer({**settings(bootstrap, "flood-consumer"), **group, **small})
    consumer.subscribe([topic])
    left = records
    while left > 0:
        left -= len(consumer.consume(1000, timeout=1))
    consumer.close()


def consume(bootstrap: str, topic: str, protocol: str = "classic") -> None:
    group = {"group.id": f"{topic}-{protocol}", "auto.offset.reset": "earliest"}
    if protocol != "classic":
        group["group.protocol"] = protocol
    consumer = Consumer(settings(bootstrap, protocol) | group)
    consumer.subscribe([topic])
    left = RECORDS
    while left > 0:
        left -= len(consumer.consume(left, timeout=0.5))
    consumer.close()


def main() -> None:
    bootstrap, topic, *steps = sys.argv[1:]
    for step in steps:
        match step:
            case "administer":
                administer(bootstrap, topic)
            case "produce":
                produce(bootstrap, topic)
            case "consume":
                consume(bootstrap, topic)
            case "acks-0":
                send_unacknowledged(bootstrap, topic)
            case "flood":
                flood(bootstrap, topic)
            case "transact":
                transact(bootstrap, topic)
            case "consume-848":
                consume(bootstrap, topic, "consumer")


if __name__ == "__main__":
    main()
