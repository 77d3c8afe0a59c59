"""The workload by confluent-kafka."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 50


def administer(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "librdkafka-admin"})
    for created in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        created.result(30)
    admin.list_topics(timeout=30)
    admin.list_consumer_groups().result(30)


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "librdkafka-producer"})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}")
        assert producer.flush(30) == 0


def transact(bootstrap: str, topic: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "client.id": "librdkafka-transactional"}
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, f"record {number}")
    producer.commit_transaction(30)


def consume(bootstrap: str, topic: str, protocol: str = "classic") -> None:
    settings = {"group.id": f"{topic}-{protocol}", "auto.offset.reset": "earliest"}
    if protocol != "classic":
        settings["group.protocol"] = protocol
    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": f"librdkafka-{protocol}", **settings})
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
            case "transact":
                transact(bootstrap, topic)
            case "consume-848":
                consume(bootstrap, topic, "consumer")


if __name__ == "__main__":
    main()
