"""The workload by kafka-python."""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

RECORDS = 50


def administer(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="kafka-python-admin")
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    admin.list_topics()
    admin.describe_cluster()
    admin.close()


def produce(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="kafka-python-producer")
    for number in range(RECORDS):
        producer.send(topic, f"record {number}".encode()).get(30)
    producer.close()


def consume(bootstrap: str, topic: str) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id="kafka-python-classic",
        group_id=f"{topic}-classic",
        auto_offset_reset="earliest",
    )
    left = RECORDS
    while left > 0:
        left -= sum(map(len, consumer.poll(500).values()))
    consumer.commit()
    consumer.close()


def main() -> None:
    bootstrap, topic, *steps = sys.argv[1:]
    for step in steps:
        {"administer": administer, "produce": produce, "consume": consume}[step](bootstrap, topic)


if __name__ == "__main__":
    main()
